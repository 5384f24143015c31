"""Where secret columns go in a SELECT: which columns of its result must be masked, and what is
refused. PURE.

A secret column may be shown only as a mask, and may decide nothing: where it stands in a condition,
an order, a join or a computation that can fail, what comes out would tell about the value, so the
statement is refused. Whether it is NULL, and how many are not, is no secret. sqlglot qualifies
every column by the tables that are really there; what it cannot resolve is refused as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from bot.tools.database.catalog import Catalog
from bot.tools.database.sql.tokens import StatementError

# Through these a value passes without an error that could depend on it; the whole result is masked.
_HARMLESS = (
    exp.Alias,
    exp.Paren,
    exp.Coalesce,
    exp.Lower,
    exp.Upper,
    exp.Trim,
    exp.Length,
    exp.DPipe,
    exp.Min,
    exp.Max,
    exp.Filter,
    exp.Window,
    exp.Subquery,
)


class Flow:
    """Follows the secret columns of one SELECT from the tables to its result."""

    def __init__(self, query: exp.Expr, catalog: Catalog, *, lenient: bool = False) -> None:
        """`lenient`: nothing is refused; whatever a secret column has a part in is secret."""
        self._catalog, self._lenient = catalog, lenient
        self.secrets: set[tuple[str, str]] = set()  # mentioned: folded table and column
        used: set[str] = set()
        for each in query.find_all(exp.Table):
            each.set("db", None)
            used |= {each.name, each.name.lower()}
        columns: dict[str, object] = {
            name: {catalog.column_key(each): "text" for each in table.columns}
            for name, table in catalog.tables.items()
            if table.columns and used & {name, name.lower()}
        }
        schema = MappingSchema(columns, dialect=catalog.dialect, normalize=False)
        try:
            self._query = qualify(
                query,
                schema=schema,
                dialect=catalog.dialect,
                quote_identifiers=False,
                identify=False,
            )
            self._scopes = {id(scope.expression): scope for scope in traverse_scope(self._query)}
        except Exception as error:  # noqa: BLE001 - whatever sqlglot stumbles over, it cannot tell
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise StatementError(f"its columns cannot be told: {reason[:200]}") from None
        selects = list(self._query.find_all(exp.Select))
        if any(id(each) not in self._scopes for each in selects):
            raise StatementError("it is nested in a way that cannot be followed")
        self._told = {id(each): [False] * len(each.expressions) for each in selects}

    def outputs(self) -> tuple[bool, ...]:
        """Which columns of the result are secret, by position.

        Raises StatementError where a secret would be told.
        """
        secret_seen = False
        for scope in list(self._scopes.values()):
            select = scope.expression
            if isinstance(select, exp.Select):
                for column in self._columns(select):
                    secret_seen = self._follow(column, scope) or secret_seen
        recursive = any(each.args.get("recursive") for each in self._query.find_all(exp.With))
        if secret_seen and recursive:
            if self._lenient:
                raise StatementError("recursive")
            raise StatementError("a secret column cannot be followed through WITH RECURSIVE")
        return tuple(self._of(self._query))

    def _columns(self, select: exp.Expr) -> Iterator[exp.Expr]:
        for node in select.walk():
            if (
                isinstance(node, (exp.Column, exp.TableColumn))
                and node.find_ancestor(exp.Select) is select
            ):
                yield node

    def _follow(self, column: exp.Expr, scope: Scope) -> bool:
        """Trace one mention of a column; whether it was a secret one."""
        if isinstance(column, exp.TableColumn) or isinstance(column.this, exp.Star):
            raise StatementError(f"{column.name or '*'} stands for a whole row; name its columns")
        if not self._is_secret(column, scope):
            return False
        self._carry(column)
        return True

    def _is_secret(self, column: exp.Expr, scope: Scope | None) -> bool:
        table = column.text("table")
        if not table:  # the name of a result column, in ORDER BY
            select = scope.expression if scope else None
            if isinstance(select, exp.Select) and column.find_ancestor(exp.Order):
                named = [each.alias_or_name for each in select.expressions]
                return any(
                    told
                    for name, told in zip(named, self._of(select), strict=True)
                    if name == column.name
                )
            raise StatementError(f"it cannot be told which table the column {column.name} is of")
        while scope is not None:
            source = scope.sources.get(table)
            if isinstance(source, exp.Table):
                found = self._catalog.tables.get(source.name)
                if found is None or column.name not in found.secret:
                    return False
                self.secrets.add((source.name, column.name))
                return True
            if isinstance(source, Scope):
                names = getattr(source.expression, "named_selects", [])
                told = self._of(source.expression)
                return any(
                    told[at]
                    for at, name in enumerate(names)
                    if name == column.name and at < len(told)
                )
            scope = scope.parent
        raise StatementError(f"it cannot be told which table {table}.{column.name} is of")

    def _of(self, query: exp.Expr) -> list[bool]:
        """Which result columns of a query are secret, as far as known by now (inner queries come
        first).
        """
        if isinstance(query, exp.Subquery):
            return self._of(query.this)
        if isinstance(query, exp.SetOperation):
            sides = [self._of(query.left), self._of(query.right)]
            either = [any(pair) for pair in zip(*sides, strict=False)]
            plain = (
                isinstance(query, exp.Union)
                and not query.args.get("distinct")
                and not query.args.get("order")
            )
            if any(either) and not plain and not self._lenient:
                raise StatementError(
                    "secret columns cannot be compared: only UNION ALL, without ORDER BY, may "
                    "hold one"
                )
            return either
        return self._told.get(id(query), [])

    def _carry(self, node: exp.Expr) -> None:
        """Mark the result columns that `node`, a secret value, goes to.

        Raises StatementError where it would tell.
        """
        child, parent = node, node.parent
        while parent is not None:
            shown = isinstance(parent, exp.Exists) or (
                isinstance(parent, exp.Is)
                and isinstance(parent.expression, exp.Null)
                and child.arg_key == "this"
            )
            if not self._lenient and (shown or isinstance(parent, exp.Count)):
                return  # how many there are, and whether it is NULL, is no secret
            if isinstance(parent, exp.Select):
                if child.arg_key == "expressions":
                    self._mark(parent, child.index or 0)
                elif not self._lenient:
                    raise self._refusal(node)
                return
            passes = isinstance(parent, _HARMLESS) and child.arg_key in (
                "this",
                "expression",
                "expressions",
            )
            if not passes and not self._lenient:
                raise self._refusal(node)
            child, parent = parent, parent.parent

    def _mark(self, select: exp.Select, position: int) -> None:
        if select.args.get("distinct") and not self._lenient:
            raise StatementError("DISTINCT would tell which secret values are the same")
        self._told[id(select)][position] = True
        outer = select.parent
        while isinstance(outer, (exp.SetOperation, exp.Paren)):
            outer = outer.parent
        if isinstance(outer, exp.Subquery) and not isinstance(
            outer.parent, (exp.From, exp.Join, exp.SetOperation)
        ):
            self._carry(outer)  # a subquery that is a value
        elif isinstance(outer, exp.In) and not self._lenient:
            raise self._refusal(select)

    def _refusal(self, node: exp.Expr) -> StatementError:
        name = next((each.name for each in node.find_all(exp.Column)), "a column")
        return StatementError(
            f"the column {name} is secret: it may be selected (and is masked), counted, or "
            "compared with NULL, but not take part in a condition, an order or a computation"
        )
