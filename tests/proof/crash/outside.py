"""What happens in a story without anybody's doing: time passes, the world outside changes."""

from __future__ import annotations

from dataclasses import dataclass

from tests.proof.crash.people import Act, Scene


@dataclass
class Wait(Act):
    """Time passes, once."""

    seconds: int
    _passed: bool = False

    def attempt(self, scene: Scene) -> None:
        """As Act says."""
        scene.rest()
        if not self._passed:
            self._passed = True
            scene.world.advance(self.seconds)
        scene.rest()


@dataclass
class Change(Act):
    """Something changes in the world outside: a file gets another text, and time to be seen."""

    file: str
    text: str

    def attempt(self, scene: Scene) -> None:
        """As Act says."""
        if self.file == "policy.toml":
            scene.world.write_policy(self.text)
        else:
            (scene.world.folder / self.file).write_text(self.text, "utf-8")
        for _ in range(3):
            scene.world.advance(5)
            scene.rest()
