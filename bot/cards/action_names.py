"""The ids of buttons, menus, dialogs, blocks and inputs in Slack. Pure.

The ids never change, since people click old cards. The values that buttons carry are read and
written by `button_codec` alone.
"""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """What a click asks for: the action id of a button, or a choice in the card's menu."""

    APPROVE = "approve"  # one call, as it is shown
    REVIEW = "review"  # open the dialog that shows all of one call; also a choice
    EDIT = "edit"  # open the form with one call's arguments
    REJECT_NOW = "reject_now"  # one call, without a word
    REJECT = "reject"  # open the dialog that asks why, for one call; also a choice
    APPROVE_ALL = "approve_all"  # every call that waits on one card
    REJECT_ALL = "reject_all"  # open the dialog that asks why, for the whole card
    SEND_BACK = "send_back"  # open the dialog for a remark on the plan; a choice only
    BREAK_GLASS = "break_glass"  # open the dialog to run a call without approval; a choice only
    LOOKED_AT = "looked_at"  # of what ran without approval: somebody has looked at it
    OBJECT = "object"  # open the dialog that asks what is wrong with it
    HAND_OVER = "hand_over"  # open the dialog that hands one call over; also a choice
    ROWS = "rows"  # send all rows of which the preview shows a part; a choice only
    WITHDRAW = "withdraw"  # the requester takes one call back; a choice only
    CANCEL_RUN = "cancel_run"  # the requester stops the whole request; also a choice
    RETRY = "retry"  # go on with a request that failed
    RESOLVE_DONE = "resolve_done"  # of a call whose end is unknown: it happened
    RESOLVE_NOT_DONE = "resolve_not_done"  # it did not happen
    RUN_AGAIN = "run_again"  # run it again
    REVOKE = "revoke"  # end what was remembered when this call was approved
    REQUEST = "request"  # choose what to ask for, without the agent
    PICK = "pick"  # open the form of the tool or template that was chosen
    ASK_AGAIN = "ask_again"  # open the form with one call's values; a choice only
    HOME_ALL = "home_all"  # show the first of everything on the Home tab
    HOME_WAITING = "home_waiting"  # all that waits for who looks at it, page by page
    HOME_MINE = "home_mine"  # all that they asked for
    HOME_BEFORE = "home_before"  # the page before
    HOME_NEXT = "home_next"  # the next page
    HOME_CHANNEL = "home_channel"  # only what was asked in the channel that was chosen
    HOME_ANYWHERE = "home_anywhere"  # what was asked in any channel again
    HOME_PASSKEYS = "home_passkeys"  # their passkeys
    ADD_PASSKEY = "add_passkey"  # get a private link to add one
    RENAME_PASSKEY = "rename_passkey"  # open the dialog that names one
    REVOKE_PASSKEY = "revoke_passkey"  # nothing can be signed with it any more
    DISOWN_PASSKEY = "disown_passkey"  # the same, as somebody else has added it
    DELEGATE = "delegate"  # open the dialog in which somebody has another decide for them
    END_DELEGATION = "end_delegation"  # nobody decides for them any more
    FEEDBACK = "feedback"  # thumbs up or down for an answer
    CHOOSE_1 = "choose_1"  # answer a question with its first choice; yes, where that is asked
    CHOOSE_2 = "choose_2"  # the second; no
    CHOOSE_3 = "choose_3"
    CHOOSE_4 = "choose_4"
    CHOOSE_5 = "choose_5"
    ANSWER = "answer"  # open the form of a question
    DECLINE = "decline"  # say that one cannot answer a question
    LOOK_WAITING = "look_waiting"  # show what waits for who clicks, in the place of the message
    LOOK_REQUESTS = "look_requests"  # their own requests
    LOOK_HISTORY = "look_history"  # what was decided of late
    LOOK_GRANTS = "look_grants"  # what is remembered
    LOOK_HELP = "look_help"  # all that can be asked
    LOOK_SHOW = "look_show"  # one request's whole life
    OPEN_PAGE = "open_page"  # a link: the browser has opened it, and nothing is to be done


OVERFLOW_MENU_ACTION_ID = "more"  # which action was chosen stands in the value


class DialogId(StrEnum):
    """The callback id of a dialog."""

    REVIEW = "review_call"
    EDIT = "edit_call"
    REJECT = "reject"
    SEND_BACK = "send_back"
    BREAK_GLASS = "break_glass"
    OBJECT = "object"
    PICK = "pick_request"  # what may be asked for
    REQUEST = "new_request"  # the form of a tool or a template
    ANSWER = "answer"
    DELEGATE = "delegate"
    HAND_OVER = "hand_over_call"
    RENAME_PASSKEY = "rename_passkey"


class ShortcutId(StrEnum):
    """The callback id of a shortcut, as declared in the app manifest."""

    ASK = "ask_with_a_form"  # from anywhere
    ASK_ABOUT = "ask_about_a_message"  # in the menu of a message


class BlockRole(StrEnum):
    """What a block of a message or of Home is for; the block's id begins with it."""

    PART = "part"  # "Part 1 of 2"
    ELSEWHERE = "l"  # where people decide about what who asked sees here
    REQUEST = "x"
    REWORDED = "y"
    DELEGATED_TASKS = "z"  # which sub-agents were asked on the way
    SERVER = "b"  # which server asks a question, amid what
    PROGRAM = "j"  # which program asks, and does it itself
    DIVIDER = "d"
    HEADLINE = "h"
    WARNING = "w"
    SHORT_VALUES = "g"
    VALUES = "v"
    MISSING = "m"
    SMALL_PRINT = "c"
    AGENT_WORDS = "q"
    PROGRESS = "s"
    CALL_BUTTONS = "a"
    VIEWERS = "eyes"  # who looks at the card's calls in a dialog
    HEAD = "e"  # of a plan of several calls
    ASKED = "u"
    HEAD_BUTTONS = "p"
    OUTCOME = "o"
    RESOLUTIONS = "r"
    LOOKS = "n"  # the buttons of who is to look at what ran without approval
    RETRY = "t"
    FEEDBACK = "f"
    RECORD = "rec"
    CUT = "cut"  # why a model's words are not whole
    PICKER = "pick"
    SIGNING = "sign"  # a link to the page where people sign
    PLACE = "where"  # where a request is asked
    QUESTION = "k"
    ANSWERS = "ks"  # the buttons that answer a question
    OVERVIEW = "ov"  # the parts of what `/approvals` shows
    DELEGATION = "del"  # that somebody decides for another
    PASSKEY = "pk"  # a person's passkey
    HOME_CHANNEL = "homec"  # where Home is narrowed to a channel: the page that it shows
    HOME = "home"  # the parts of the Home tab; its calls and requests are named as on cards


class InputBlockId(StrEnum):
    """The block id of an input in a dialog; the edit form adds one for each argument."""

    NOTE = "note"
    REMEMBER = "remember"
    WORDS = "words"
    REASON = "reason"
    APPROVE_TOO = "then"
    WHY = "why"
    DELEGATE = "delegate"
    ASSIGNEE = "assignee"
    UNTIL = "until"


ARGUMENT_BLOCK_ID_PREFIX = "f:"


class InputElementId(StrEnum):
    """The action id of the element inside a dialog's input."""

    TEXT = "text"
    OFFER = "offer"
    PRESET = "preset"
    PERSON = "person"
    MOMENT = "moment"
    VALUE = "v"
