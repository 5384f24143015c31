"""Keys of workspaces: made of the shared key, or set by the workspace itself."""

from __future__ import annotations

from pathlib import Path

from bot.config.workspace_settings import read_workspace_variables


def test_a_workspace_has_a_derived_key_or_one_of_its_own(tmp_path: Path) -> None:
    """Keys for tokens cannot be set by a workspace."""
    of_all = {"COUNTERSIGN_WORKSPACES": str(tmp_path), "COUNTERSIGN_KEY": "c" * 40}
    given, others = (of_all | {"COUNTERSIGN_WORKSPACE": each} for each in ("T1", "T2"))
    own, other = (read_workspace_variables(each)[0]["COUNTERSIGN_KEY"] for each in (given, others))
    assert len({own, other, "c" * 40}) == 3
    (tmp_path / "T1").mkdir()
    (tmp_path / "T1" / "settings.env").write_text(f"COUNTERSIGN_KEY={'o' * 40}\n")
    found, problems = read_workspace_variables(given)
    assert (found["COUNTERSIGN_KEY"], problems) == ("o" * 40, [])
    (tmp_path / "T1" / "settings.env").write_text("COUNTERSIGN_TOKEN_KEYS=one:two\n")
    _, [problem] = read_workspace_variables(given)
    assert problem.startswith("COUNTERSIGN_TOKEN_KEYS: is one for all workspaces")
