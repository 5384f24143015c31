"""The dialog in which a person names their passkey: opened for that person alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

from bot.approvals.dialog_access import DialogRefusal
from bot.approvals.passkey_manager import PasskeyManager
from bot.cards import button_codec, passkey_views
from bot.cards.action_names import Action, DialogId
from bot.slack.dialogs import PreparedDialog


@dataclass(frozen=True, slots=True)
class PasskeyDialogFamily:
    """The family of the dialog in which a person renames their passkey."""

    passkeys: PasskeyManager

    actions: ClassVar[Collection[Action]] = (Action.RENAME_PASSKEY,)
    dialogs: ClassVar[Collection[DialogId]] = (DialogId.RENAME_PASSKEY,)

    def prepare_dialog(
        self, click: button_codec.Click, body: dict[str, Any]
    ) -> PreparedDialog | DialogRefusal:
        """Return the dialog with the passkey's name, if it is a passkey of who asks."""
        target = click.target
        assert isinstance(target, button_codec.PasskeyTarget)
        with self.passkeys.store.read() as tx:
            row = self.passkeys.find_own_passkey(tx, target.passkey, body["user"]["id"])
        if row is None:
            return DialogRefusal(passkey_views.ENDED_REPLY)
        return PreparedDialog(passkey_views.render_rename_dialog(row.id, row.name))

    def validate_submission(
        self, _subject: button_codec.DialogSubject, _body: dict[str, Any]
    ) -> dict[str, str]:
        """Return no errors: Slack lets nobody leave the name out, and whose it is is seen later."""
        return {}
