"""Events in a story that nobody causes: time passes, the world outside changes."""

from __future__ import annotations

from dataclasses import dataclass

from tests.proof.crash.people import Act, Scene


@dataclass
class Wait(Act):
    """Time passes, once."""

    seconds: int
    _passed: bool = False

    def perform(self, scene: Scene) -> None:
        """See Act."""
        scene.settle()
        if not self._passed:
            self._passed = True
            scene.world.advance(self.seconds)
        scene.settle()


@dataclass
class Change(Act):
    """Something changes outside: a file gets another text, and there is time to notice it."""

    file: str
    text: str

    def perform(self, scene: Scene) -> None:
        """See Act."""
        if self.file == "policy.toml":
            scene.world.write_policy(self.text)
        else:
            (scene.world.folder / self.file).write_text(self.text, "utf-8")
        for _ in range(3):
            scene.world.advance(5)
            scene.settle()
