"""What must be true of the record, checked after each commit.

It reads the database by itself and keeps its own small model of each call and request, so that the
product's own tables and checks are not what proves them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from tests.proof.simulation.database import Row, open_database
from tests.proof.simulation.directory import SimDirectory
from tests.proof.simulation.policies import Terms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ENDS = "succeeded failed cancelled superseded"
CALLS = {  # as in the design; not read from the product
    "pending": "approved rejected answered expired cancelled superseded invalidated",
    "approved": "running cancelled superseded invalidated pending unknown",
    "running": "succeeded failed unknown pending entrusted",
    "entrusted": ENDS,
    "unknown": "succeeded failed approved",
}
RUNS = {
    "ready": "running cancelled",
    "running": "waiting ready completed failed cancelled",
    "waiting": "ready cancelled",
    "failed": "ready",
}
REPEATABLE_TOOLS = ("put", "peek", "desk")  # tools that a crash may repeat, with the same key


@dataclass
class CallState:
    """The state of a call, according to the audit so far."""

    status: str
    tool: str
    may_run: bool  # approved, and not started since
    starts: int = 0
    restarts: int = 0


class Record:
    """The promises, as checks."""

    def __init__(self, path: Path, directory: SimDirectory, terms: Mapping[str, Terms]) -> None:
        """`terms`: what each policy requires, by its digest."""
        self._directory, self._terms = directory, terms
        self.calls: dict[str, CallState] = {}
        self.runs: dict[str, str] = {}
        self.effects: Counter[str] = Counter()
        self.votes: Counter[str] = Counter()
        self.grants: Counter[tuple[str, str]] = Counter()  # uses given, and used
        self.wrong: list[str] = []
        self._audit = self._vote = 0
        self._database = open_database(path)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def read_all(self) -> str:
        """Every row of every table, as text."""
        tables = self._database.list_tables()
        rows = (row for table in tables for row in self.all(f'SELECT * FROM "{table}"'))
        return "\n".join(repr(tuple(row)) for row in rows)

    def is_sound(self) -> bool:
        """Whether the database finds itself intact."""
        return self._database.is_sound()

    def all(self, sql: str, *values: Any) -> list[Row]:
        """The rows of a query, whose parameters are marked ?."""
        return self._database.all(sql, values)

    def one(self, sql: str, *values: Any) -> Row:
        """The first row of a query that has one."""
        return self.all(sql, *values)[0]

    def expect(self, holds: object, what: str) -> None:
        """Note what is wrong."""
        if not holds:
            self.wrong.append(what)

    def check_new_rows(self, policy: str, now: datetime) -> None:
        """Check what the last commit added, under the policy of that digest."""
        for row in self.all("SELECT * FROM vote WHERE seq > ? ORDER BY seq", self._vote):
            self._vote = row["seq"]
            self._check_vote(row)
        for row in self.all("SELECT * FROM audit WHERE seq > ? ORDER BY seq", self._audit):
            self._audit = row["seq"]
            data = json.loads(row["data"])
            if row["event"] in ("grant.given", "grant.used"):
                self.grants[row["event"], data["grant"]] += data.get("uses", 1)
            if row["event"].startswith("run.born"):
                self.runs[row["run_id"]] = "ready"
            elif row["event"].startswith("run.") and "to" in data:
                self._check_run_change(row["run_id"], data)
            elif row["call_id"]:
                self._check_call_change(row, data, policy, now)

    def _check_run_change(self, run: str, data: dict[str, Any]) -> None:
        before = self.runs.get(run, "")
        self.expect(before == data["from"], f"run {run} was {before}, moved from {data['from']}")
        self.expect(data["to"] in RUNS.get(before, "").split(), f"run: {before} to {data['to']}")
        self.runs[run] = data["to"]

    def _check_call_change(
        self, row: Row, data: dict[str, Any], policy: str, now: datetime
    ) -> None:
        call, event = row["call_id"], row["event"]
        if event.startswith("call.born."):
            status = event.removeprefix("call.born.")
            self.calls[call] = CallState(status, data["tool"], status == "approved")
            self.expect(status in ("pending", "approved", "refused"), f"{call}: {event}")
            return
        stands = self.calls.get(call)
        if stands is None:
            self.expect(not event.startswith("call.running"), f"{call}: {event} before its birth")
            return
        if data.get("again"):
            repeats = stands.tool in REPEATABLE_TOOLS and stands.status == "running"
            self.expect(repeats, f"{call} {stands.tool} is started again")
            stands.restarts += 1
            return
        if "to" not in data:
            return
        before, to = stands.status, data["to"]
        self.expect(before == data["from"], f"call {call} was {before}, from {data['from']}")
        self.expect(to in CALLS.get(before, "").split(), f"call {call}: {before} to {to}")
        if (before, to) == ("approved", "unknown"):  # it was to run again, and may not
            self.expect(stands.starts, f"call {call} is unknown, but was never started")
            stands.may_run = False
        stands.status = to
        if to == "approved":
            stands.may_run = True
        elif to == "running":
            self._check_start(call, stands, policy, now)
        elif to == "pending":
            stands.may_run = False
        elif event == "call.expired":
            self._check_expiry(call, now)

    def _check_start(self, call: str, stands: CallState, policy: str, now: datetime) -> None:
        """Check that the call was approved for this start, by enough people, as shown."""
        self.expect(stands.may_run, f"{call} starts a second time on one approval")
        stands.may_run, stands.starts = False, stands.starts + 1
        row = self.one("SELECT * FROM call WHERE id = ?", call)
        shown = self.one(
            "SELECT * FROM revision WHERE call_id = ? AND number = ?", call, row["revision"]
        )
        self.expect(shown["digest"] == row["digest"], f"{call}: its digest is not that shown")
        votes = self.all(
            "SELECT * FROM vote WHERE call_id = ? AND revision = ?", call, row["revision"]
        )
        against = [vote for vote in votes if vote["verb"] == "reject"]
        self.expect(not against, f"{call} starts though it was rejected")
        earlier = self.all(
            "SELECT id FROM call WHERE plan_id = ? AND position < ? AND does != 'read'"
            " AND status IN ('failed', 'unknown')",
            row["plan_id"],
            row["position"],
        )
        stopped = earlier and row["does"] != "read"
        self.expect(not stopped, f"{call} starts after a step that failed")
        terms, gate = self._terms[policy], json.loads(row["gate"])
        self.expect(stands.tool not in terms.denies, f"{call} starts though policy denies it")
        if stands.tool in terms.allows and gate["verdict"] == "allow":
            return
        if row["grant_id"]:
            self._check_grant(row, terms)
            return
        # after a rejection, an allowed call is asked of the same people under the same gate
        allowed = stands.tool in terms.allows and gate.get("would_allow")
        unsigned = not terms.signed or allowed
        given = [v for v in votes if v["digest"] == row["digest"] and (unsigned or v["passkey_id"])]
        alone = [vote["person"] for vote in given if vote["verb"] == "break_glass"]
        if alone:  # its gate names them, and policy still does, or asks nobody
            held = stands.tool in terms.allows or set(alone) <= set(terms.alone)
            self.expect(held, f"{call} starts without approval by {alone}, under {terms.name}")
            return
        people = {v["for_person"] or v["person"] for v in given if v["verb"] == "approve"}
        again = self.one(
            "SELECT count(*) FROM audit WHERE call_id = ? AND event = 'call.unknown'", call
        )
        if terms.starts and gate.get("run_at") and not again[0]:
            last = EPOCH + timedelta(microseconds=max(vote["created_at"] for vote in given))
            midnight = last.replace(hour=0, minute=0, second=0, microsecond=0)
            start = midnight + terms.starts
            start += timedelta(days=1) if start <= last else timedelta()
            self.expect(now >= start, f"{call} starts at {now}, approved at {last}")
        enough = len(people) >= (1 if allowed else terms.quorum)
        self.expect(enough, f"{call} {stands.tool} starts with {people}, under {terms.name}")

    def _check_grant(self, row: Row, terms: Terms) -> None:
        call = row["id"]
        if row["tool"] in terms.allows:  # it needs no grant any more
            return
        self.expect(row["tool"] in terms.remembers, f"{call} runs on what is not remembered")
        grant = self.one("SELECT * FROM remembered WHERE id = ?", row["grant_id"])
        self.expect(grant["uses"] >= 0, f"{call}: its grant was used too often")
        self.expect(grant["revoked_at"] is None, f"{call}: its grant was revoked")
        run = self.one("SELECT * FROM run WHERE id = ?", row["run_id"])
        same = grant["requester"] == run["requester"] and grant["tool"] == row["tool"]
        self.expect(same, f"{call}: its grant is another's")
        runs = self.all("SELECT id FROM call WHERE grant_id = ?", grant["id"])
        started = sum(1 for each in runs if self.calls[each["id"]].starts)
        given = self.grants["grant.given", grant["id"]]
        self.expect(started <= given, f"{call}: its grant for {given} was used {started} times")

    def _check_vote(self, vote: Row) -> None:
        """Check that this person could vote on this, in time."""
        call = self.one("SELECT * FROM call WHERE id = ?", vote["call_id"])
        run = self.one("SELECT * FROM run WHERE id = ?", call["run_id"])
        person, at = vote["person"], EPOCH + timedelta(microseconds=vote["created_at"])
        self.votes[f"votes {vote['verb']}"] += 1
        about = f"{vote['verb']} of {call['id']} by {person}"
        gate = json.loads(call["gate"])
        self._check_signature(vote, gate, about)
        if gate["verdict"] == "allow":  # the requester may run again a call that asked nobody
            self.expect(person == run["requester"], f"{about}, who has not asked for it")
            return
        if vote["verb"] == "break_glass":
            named = (gate.get("break_glass") or {}).get("users", ())
            self.expect(person in named, f"{about}, whom nobody has named")
            self.expect(len(vote["reason"]) > 9, f"{about} for no reason")
            self._check_shown_in_time(vote, call, about)
            return
        self.expect(self._directory.was_lead(person, at), f"{about}, who may not")
        if vote["verb"] == "reject":
            return
        if vote["verb"] in ("look", "object"):
            self._check_look(vote, call, about)
        self.expect(person != run["requester"], f"{about}, who asked for it")
        self._check_shown_in_time(vote, call, about)
        authors = self.all("SELECT author FROM revision WHERE call_id = ?", call["id"])
        edited = person in {each["author"] for each in authors}
        self.expect(not edited or gate.get("editor_counts"), f"{about}, who has edited it")

    def _check_signature(self, vote: Row, gate: dict[str, Any], about: str) -> None:
        """Check that the vote is signed, for exactly this, if its gate requires that."""
        wanted = any(stage.get("signature") for stage in gate.get("stages", ()))
        if vote["verb"] in ("approve", "break_glass"):
            self.expect(bool(vote["passkey_id"]) >= wanted, f"{about}, which nobody has signed")
        names = ("call_id", "revision", "person", "verb", "passkey_id")
        where = " AND ".join(f"{name} = ?" for name in names)
        found = self.all(f"SELECT * FROM signature WHERE {where}", *(vote[each] for each in names))
        self.expect(len(found) == bool(vote["passkey_id"]), f"{about} has {len(found)} signatures")
        self.votes["votes that are signed"] += len(found)

    def _check_shown_in_time(self, vote: Row, call: Row, about: str) -> None:
        """Check that the vote is on what is shown, before the deadline if there is one."""
        self.expect(vote["digest"] == call["digest"], f"{about} is of another digest")
        self.expect(vote["revision"] == call["revision"], f"{about} is of another revision")
        open_ = call["status"] != "unknown" and vote["verb"] not in ("look", "object")
        if open_ and call["deadline"] is not None:
            self.expect(vote["created_at"] < call["deadline"], f"{about} after the deadline")

    def _check_look(self, vote: Row, call: Row, about: str) -> None:
        """Check that somebody else looked, once, at a call that ran without approval."""
        others = self.all(
            "SELECT * FROM vote WHERE call_id = ? AND revision = ? AND seq < ?",
            call["id"],
            call["revision"],
            vote["seq"],
        )
        alone = [each["person"] for each in others if each["verb"] == "break_glass"]
        self.expect(alone, f"{about}, which was approved")
        self.expect(vote["person"] not in alone, f"{about}, who ran it")
        first = not any(each["verb"] in ("look", "object") for each in others)
        self.expect(first, f"{about}, at which somebody had looked")

    def _check_expiry(self, call: str, now: datetime) -> None:
        """Check that the deadline has passed, and that no click in time is undecided."""
        row = self.one("SELECT * FROM call WHERE id = ?", call)
        micros = (now - EPOCH) // timedelta(microseconds=1)
        self.expect(row["deadline"] <= micros, f"{call} expires before its deadline")
        stored = self.all(
            "SELECT body FROM delivery WHERE status = 'new' AND received_at < ?"
            " AND kind IN ('action', 'submission', 'signature')",
            row["deadline"],
        )
        mine = [each for each in stored if call in each["body"] or row["plan_id"] in each["body"]]
        self.expect(not mine, f"{call} expires before a click that was stored in time")

    def is_open(self, call: str) -> bool:
        """Whether people can decide about it."""
        return call in self.calls and self.calls[call].status in ("pending", "unknown")

    def choose_time_before_deadline(self, now: datetime, random: Random) -> datetime:
        """A time just before the next deadline; `now` if there is none, or it has passed."""
        [nearest] = self.one("SELECT min(deadline) FROM call WHERE status = 'pending'")
        if nearest is None:
            return now
        return max(now, EPOCH + timedelta(microseconds=nearest - random.randrange(3_000_000)))

    # tools

    def check_tool_start(self, tool: str, arguments: Mapping[str, Any], call: str) -> None:
        """Check a tool's start: RUNNING is written, and it was given what was shown."""
        stands = self.calls[call]
        self.expect(stands.status in ("running", "unknown"), f"{tool} {call} is {stands.status}")
        row = self.one("SELECT * FROM call WHERE id = ?", call)
        shown = self.one(
            "SELECT * FROM revision WHERE call_id = ? AND number = ?", call, row["revision"]
        )
        same = row["tool"] == tool and json.loads(shown["arguments"]) == arguments
        self.expect(same, f"{tool} is given {arguments}, shown was {shown['arguments']}")

    def check_effect(self, call: str) -> None:
        """Check a tool's effect: once for each start."""
        stands = self.calls[call]
        self.effects[call] += 1
        allowed = stands.starts + stands.restarts
        self.expect(self.effects[call] <= allowed, f"{stands.tool} {call} happens twice")
