"""Two workspaces with the same ids in one process, killed during the work of both.

`python -m tests.proof.crash.hosted` strikes at every step. In each workspace somebody asks for the
same at the same time, and both are approved at once; in the end each has its own effect and answer.
Slack reaches it by Socket Mode, or `--over http`; with RECORD_ON=postgresql the records are schemas
of one database, which the next process has once the leases of the dead one have expired.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import text

from bot.config.connection_settings import Transport
from bot.config.settings import Settings
from bot.config.workspace_settings import get_schema_name
from storage.digest import key_file_path, load_or_create_signing_key
from storage.models import Audit
from storage.store import Store
from tests.model_stand_in.planner import StrictPlanner
from tests.proof.crash.checks import list_violations
from tests.proof.crash.hosted_life import serve
from tests.proof.crash.life import Died, Life, Orders, Stuck
from tests.proof.crash.matrix import Telling, sample_steps
from tests.proof.crash.people import SUPPORT, Scene
from tests.proof.crash.steps import Step
from tests.proof.crash.stories import POLICY, Story
from tests.proof.crash.tools import Ledger
from tests.proof.crash.troubles import Trouble
from tests.proof.crash.world import MAX_LIVES, World, describe_world
from tests.records import ON_A_SERVER, drop, settings_of
from tests.stories.hosted import CLIENT, TwoWorkspaces
from tests.stories.messages import words
from tests.stories.over_http import asked_at, free_port
from tests.workspaces.hosting import plan_note
from tests.workspaces.many import TOKEN_KEYS

ANSWER = "That is all."
NAME = "two workspaces"
EVERY = 50  # tellings between two lines about the progress


class TwoWorlds:
    """What remains when the process of two workspaces dies."""

    def __init__(self, folder: Path, at: Step | None, over: Transport) -> None:
        """`at`: where its first life is killed; `over`: how Slack reaches it."""
        self.folder, self.at, self.over = folder, at, over
        self.two = TwoWorkspaces(folder, ())
        self.planner = StrictPlanner(mind=plan_note)
        self.planner.start()
        for each in self.two.teams:
            self.two.view(
                each
            ).world.ack_seconds = 1.5  # seconds that people wait for a dead process
        (folder / "policy.toml").write_text(POLICY, "utf-8")
        self.address = f"127.0.0.1:{free_port() if over is Transport.HTTP else 0}"
        if over is Transport.HTTP:
            for world in self.two.sandbox.world.shared.worlds.values():
                asked_at(world.app.manifest, f"http://{self.address}")
        self.database = folder / "server.db"  # all records, if they are on a server
        self.where = settings_of(self.database) if ON_A_SERVER else {}
        self.two.install_in_record(Settings.load(self.settings, transport=over))
        self.lives, self.shifted, self.struck = 0, 0.0, False
        self.steps: list[Step] = []
        self._life: Life | None = None
        self.parts = [Part(self, team) for team in self.two.teams]

    @property
    def settings(self) -> dict[str, str]:
        """The environment of the process."""
        return {
            **self._find_secret(),
            "SLACK_API_URL": self.two.sandbox.api_url,
            "OPENAI_API_KEY": "sk-offline-offline-offline",
            "OPENAI_BASE_URL": self.planner.url,
            "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
            "COUNTERSIGN_WORKSPACES": str(self.folder / "workspaces"),
            "COUNTERSIGN_MODEL_BACKOFF": "0.05",
            "COUNTERSIGN_URL": "http://localhost:8080",
            "COUNTERSIGN_HTTP": self.address,
            "COUNTERSIGN_TOKEN_KEYS": TOKEN_KEYS,
            **self.where,
            **CLIENT,
        }

    def _find_secret(self) -> dict[str, str]:
        """What the process needs to get Slack's deliveries, or to recognise them."""
        app = self.two.sandbox.world.app
        if self.over is Transport.HTTP:
            return {"SLACK_SIGNING_SECRET": app.signing_secret}
        return {"SLACK_APP_TOKEN": app.app_token}

    @property
    def life(self) -> Life:
        """The process, which is started if it is not alive."""
        while self._life is None:
            if self.lives == MAX_LIVES:
                raise Stuck("the process dies again and again")
            self.lives += 1
            at = self.at if self.lives == 1 else None
            given = (self.settings, POLICY, self.folder, self.shifted, at)
            try:
                self._life = Life(Orders(*given, over=self.over), serve)
            except Died:
                self.record_death()
        return self._life

    def record_death(self) -> None:
        """The process has died."""
        if self._life is not None:
            self._life.kill()
        self._life, self.struck = None, True
        self.two.sandbox.wait(lambda: self.two.sandbox.connections == 0)

    def stop(self) -> None:
        """End it properly."""
        steps, struck = self.life.stop()
        self._life = None
        if self.lives == 1:
            self.steps, self.struck = steps, struck

    def end(self) -> None:
        """End everything."""
        if self._life is not None:
            self._life.kill()
        self.planner.stop()
        self.two.close()
        if ON_A_SERVER:
            drop(self.database)


class Part(World):
    """One of the two workspaces, as a world for people and checks."""

    def __init__(self, whole: TwoWorlds, team: str) -> None:
        self.whole, self.team, self.policy, self.over = whole, team, POLICY, whole.over
        self.folder = whole.folder / "workspaces" / team
        self.folder.mkdir(parents=True)
        (self.folder / "shelf").write_text("3")
        self.slack: Any = whole.two.view(team)
        self.planner, self.clock = whole.planner, whole.two.clock
        self.database = self.folder / "countersign.db"
        self.ledger = Ledger(self.folder)
        self.text = f"of {team} alone"

    @property
    def life(self) -> Life:
        """The process of both."""
        return self.whole.life

    def advance(self, seconds: float) -> None:
        """Let time pass, in both."""
        self.whole.shifted += seconds
        self.whole.two.clock.advance(seconds)
        self.life.advance(seconds)

    def store(self) -> Store:
        """This workspace's record, read from outside."""
        if not ON_A_SERVER:
            key = load_or_create_signing_key(key_file_path(self.database))
            return Store(f"sqlite:///{self.database}", key=key)
        mine = {"COUNTERSIGN_WORKSPACE": self.team, "SLACK_BOT_TOKEN": self.slack.bot_token}
        settings = Settings.load(self.whole.settings | mine, transport=self.over)
        return Store(settings.database_url, key=settings.signing_key)

    def read_all(self) -> bytes:
        """All that is stored of this workspace, as it is in the database."""
        if not ON_A_SERVER:
            files = self.folder.glob("countersign.db*")
            return b"".join(each.read_bytes() for each in files)
        store, schema = self.store(), get_schema_name(self.team)
        try:
            with store.engine.connect() as connection:
                query = "SELECT tablename FROM pg_tables WHERE schemaname = :schema"
                tables = connection.execute(text(query), {"schema": schema}).scalars().all()
                queries = [text(f'SELECT t::text FROM {schema}."{each}" t') for each in tables]
                rows = [row for each in queries for row in connection.execute(each).scalars()]
        finally:
            store.close()
        return "\n".join(rows).encode()


class PairOfScenes:
    """The people of both workspaces, who do the same at the same time."""

    def __init__(self, whole: TwoWorlds) -> None:
        self._whole = whole
        self._scenes = {part.team: Scene(part) for part in whole.parts}
        self._parts = {part.team: part for part in whole.parts}
        self._said: set[str] = set()
        self._clicks: dict[str, Any] = {}

    def play(self) -> None:
        """Ask, approve and hear the answer in both; start a process that dies meanwhile again."""
        for act in (self._ask, self._approve, self._hear, self._end):
            while True:
                try:
                    act()
                    break
                except Died:
                    self._whole.record_death()

    def _rest(self) -> None:
        for scene in self._scenes.values():
            scene.settle()

    def _ask(self) -> None:
        for team, part in self._parts.items():
            if team not in self._said:
                self._said.add(team)
                part.slack.person("ben").say(SUPPORT, f"@bot note: {part.text}")
        self._rest()

    def _approve(self) -> None:
        """Click in both before waiting for anything; again if Slack has shown an error."""
        while True:
            self._rest()
            left = [team for team in self._scenes if not self._is_heard(team)]
            if not left:
                return
            cards = {
                team: self._scenes[team].wait_until(lambda t=team: self._find_card(t), "a card")
                for team in left
            }
            for team, card in cards.items():
                self._clicks[team] = self._scenes[team].click("ana", card, "approve")

    def _find_card(self, team: str) -> Any:
        return self._scenes[team].find_message_with("ana", "approve")

    def _is_heard(self, team: str) -> bool:
        click = self._clicks.get(team)
        return click is not None and (click.ok or not self._find_card(team))

    def _hear(self) -> None:
        for scene in self._scenes.values():
            scene.wait_until(lambda s=scene: s.count_messages("ben", ANSWER) > 0, "the answer")

    def _end(self) -> None:
        for team, scene in self._scenes.items():
            scene.wait_until(self._parts[team].is_over, "the end of it")
        self._whole.stop()


def find_violations(part: Part, other: Part) -> Iterator[str]:
    """Yield broken promises in one of the two; nobody works any more."""
    story = Story(NAME, plan_note, list, may={part.text: 1})
    yield from list_violations(story, part)
    done = [line["text"] for line in part.ledger.lines()]
    was_unknown = any(each.event == "call.unknown" for each in part.all(Audit))
    if done != [part.text] and not (was_unknown and not done):
        yield f"{done} was done, and not {part.text!r} once"
    seen = part.slack.person("ben").everything(SUPPORT)
    if (answers := sum(ANSWER in words(each) for each in seen)) != 1:
        yield f"there are {answers} answers"
    if other.text in "\n".join(words(each) for each in seen):
        yield "Slack shows what is the other's"
    kept = part.read_all()
    if other.text.encode() in kept:
        yield "the record has what is the other's"
    if part.text.encode() not in kept:
        yield "the record has nothing of its own"


def tell_story(at: Step | None, folder: Path, over: Transport) -> tuple[Telling, list[Step]]:
    """Tell the story with a kill at that step; also return its steps, if there was none."""
    told = Telling(NAME, Trouble.KILLED if at else "", str(at or ""))
    begun = time.monotonic()
    with TemporaryDirectory(dir=folder) as place:
        made = TwoWorlds(Path(place), at, over)
        try:
            PairOfScenes(made).play()
            first, second = made.parts
            for part, other in ((first, second), (second, first)):
                told.wrong += [f"{part.team}: {each}" for each in find_violations(part, other)]
        except (Stuck, TimeoutError, AssertionError, LookupError) as error:
            told.wrong = [f"{type(error).__name__}: {error}", traceback.format_exc()[-1500:]]
        finally:
            made.end()
        if told.wrong:
            for part in made.parts:
                part.lives, part.struck, part.shifted = made.lives, made.struck, made.shifted
                told.wrong += [f"{part.team}: {line}" for line in describe_world(part)]
            told.wrong.append((made.folder / "log").read_text()[-3000:])
    told.struck, told.lives, told.seconds = made.struck, made.lives, time.monotonic() - begun
    return told, made.steps


def find_steps(folder: Path, over: Transport = Transport.SOCKET) -> list[Step]:
    """Return the steps of the undisturbed story; raises AssertionError if it goes wrong."""
    told, steps = tell_story(None, folder, over)
    assert not told.wrong, told.wrong
    return steps


def strike(at: Step, folder: Path, over: Transport = Transport.SOCKET) -> Telling:
    """Tell the story with a kill at that step; once more if it took another course."""
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # it logs each cut connection
    told, _ = tell_story(at, folder, over)
    return told if told.struck or told.wrong else tell_story(at, folder, over)[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Strike at the steps that `argv` chooses (None: the command line); 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ways = [each.value for each in Transport]
    parser.add_argument("--over", choices=ways, default=Transport.SOCKET, help="Slack's way to it")
    parser.add_argument("--most", type=int, default=10_000, help="steps at most")
    parser.add_argument("--jobs", type=int, default=2, help="tellings at once")
    arguments = parser.parse_args(argv)
    begun, over = time.monotonic(), Transport(arguments.over)
    told: list[Telling] = []
    with TemporaryDirectory() as name:  # a short path, for sockets
        folder = Path(name)
        steps = find_steps(folder, over)
        pool = ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn"))
        try:
            chosen = sample_steps(steps, arguments.most)
            works = [pool.submit(strike, each, folder, over) for each in chosen]
            for work in as_completed(works):
                told.append(work.result())
                if told[-1].wrong:
                    print(f"{NAME}, killed at {told[-1].step}:", *told[-1].wrong, sep="\n    ")
                if len(told) % EVERY == 0:
                    print(f"{len(told)} told", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    struck, wrong = sum(each.struck for each in told), sum(bool(each.wrong) for each in told)
    minutes = (time.monotonic() - begun) / 60
    print(f"{NAME}: {len(steps)} steps, {struck} struck, {wrong} wrong, in {minutes:.1f} minutes.")
    return int(bool(wrong) or struck < len(told))


if __name__ == "__main__":
    sys.exit(main())
