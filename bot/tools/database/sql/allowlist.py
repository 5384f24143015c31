"""What a statement may be made of: syntax nodes, functions, types, per database. Constants only.

Everything that is not named here is refused, so a new version of a parser or a database opens
nothing by itself.
"""

from __future__ import annotations

from sqlglot import exp


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What may stand before a parenthesis without being a function.
SYNTAX = _words(
    "all and any as between by case distinct else except exists filter from group having in "
    "intersect into is join like ilike escape limit not offset on or over partition recursive "
    "select set then union using values when where with within materialized"
)
TYPE_WORDS = _words("char character decimal numeric varchar varying timestamp time timestamptz")

# Functions that only compute, by the names they are called by. None reads a file, a setting or
# another session, none writes, none waits, none makes a value much longer than what it was given.
COMMON = _words(
    "abs avg cast ceil ceiling coalesce concat concat_ws count cume_dist dense_rank exp "
    "first_value floor lag last_value lead length ln log lower ltrim max min mod nth_value ntile "
    "nullif percent_rank power random rank replace round row_number rtrim sign sqrt substr "
    "substring sum trim upper string_agg"
)
FUNCTIONS = {
    "sqlite": COMMON
    | _words(
        "char date datetime group_concat hex ifnull iif instr json_array_length json_extract "
        "json_type json_valid julianday strftime time total trunc typeof unicode unixepoch"
    ),
    "postgres": COMMON
    | _words(
        "age array_agg bool_and bool_or btrim char_length character_length clock_timestamp "
        "date_part date_trunc every extract gen_random_uuid greatest initcap jsonb_array_length "
        "json_array_length left least make_date md5 now octet_length percentile_cont "
        "percentile_disc position right split_part starts_with statement_timestamp stddev strpos "
        "to_char to_date to_number to_timestamp transaction_timestamp trunc variance "
        "width_bucket"
    ),
}
# called without parentheses
BARE = _words("current_date current_time current_timestamp localtime localtimestamp")
# These give another value each time, or with time: what a preview shows is not what a later run
# does.
VOLATILE = BARE | _words(
    "random gen_random_uuid now clock_timestamp statement_timestamp transaction_timestamp age "
    "date datetime julianday strftime time unixepoch"
)
VOLATILE_TEXTS = _words("now today tomorrow yesterday")  # PostgreSQL reads these strings as times
# Words that are functions without parentheses in PostgreSQL, and tell about the session.
SESSION_WORDS = _words(
    "user current_user session_user current_role current_catalog current_schema system_user"
)

TYPES = frozenset(
    exp.DataType.Type[each]
    for each in _words(
        "TEXT VARCHAR CHAR INT BIGINT SMALLINT TINYINT DECIMAL FLOAT DOUBLE BOOLEAN DATE TIME "
        "TIMETZ TIMESTAMP TIMESTAMPTZ INTERVAL UUID JSON JSONB"
    )
)

READS: tuple[type[exp.Expr], ...] = (
    exp.Select,
    exp.From,
    exp.Join,
    exp.Where,
    exp.Group,
    exp.Having,
    exp.Order,
    exp.Ordered,
    exp.Limit,
    exp.Offset,
    exp.With,
    exp.CTE,
    exp.Subquery,
    exp.Union,
    exp.Intersect,
    exp.Except,
    exp.Alias,
    exp.TableAlias,
    exp.Column,
    exp.Identifier,
    exp.Table,
    exp.Star,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Distinct,
    exp.Tuple,
    exp.Values,
    exp.Case,
    exp.If,
    exp.Window,
    exp.WindowSpec,
    exp.Filter,
    exp.WithinGroup,
    exp.Var,
    exp.Interval,
    exp.And,
    exp.Or,
    exp.Not,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.Escape,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
    exp.Neg,
    exp.DPipe,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Exists,
    exp.Any,
    exp.All,
    exp.AtTimeZone,
    exp.JSONPath,
    exp.JSONPathRoot,
    exp.JSONPathKey,
    exp.JSONPathSubscript,
    exp.Collate,
)
# What INSERT, UPDATE and DELETE may have; a RETURNING, FROM, USING, ON CONFLICT or OR REPLACE is
# none of it.
CHANGES: dict[type[exp.Expr], frozenset[str]] = {
    exp.Insert: frozenset({"this", "expression", "with_"}),
    exp.Update: frozenset({"this", "expressions", "where", "with_"}),
    exp.Delete: frozenset({"this", "where", "with_"}),
}
