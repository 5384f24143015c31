"""A small Slack app to try the local Slack with: docs/sandbox.md."""

import os

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient


def plain(text):
    return {"type": "plain_text", "text": text}


BUTTON = {
    "type": "actions",
    "elements": [{"type": "button", "action_id": "order", "text": plain("Order")}],
}
DRINK = {"type": "external_select", "action_id": "drink", "min_query_length": 1}
NOTE = {"type": "plain_text_input", "action_id": "note"}
FORM = {
    "type": "modal",
    "callback_id": "order",
    "title": plain("Order"),
    "submit": plain("Send"),
    "blocks": [
        {
            "type": "input",
            "block_id": "drink",
            "label": plain("Drink"),
            "element": DRINK,
            "dispatch_action": True,
        },
        {"type": "input", "block_id": "note", "label": plain("Note"), "element": NOTE},
    ],
}


def make(token, url):
    app = App(client=WebClient(token=token, base_url=url))

    @app.message("coffee")
    def asked(message, say, client):
        thread = {"channel_id": message["channel"], "thread_ts": message["ts"]}
        client.api_call("agents.sessions.setStatus", params={**thread, "status": "processing"})
        say(text="Coffee?", blocks=[{"type": "section", "text": plain("Coffee?")}, BUTTON])

    @app.action("order")
    @app.shortcut("order")
    def form(ack, body, client):
        ack()
        client.views_open(trigger_id=body["trigger_id"], view=FORM)

    @app.options("drink")
    def drinks(ack):
        ack(options=[{"text": plain("Espresso"), "value": "espresso"}])

    @app.view("order")
    def sent(ack, view, client):
        ack()
        note = view["state"]["values"]["note"]["note"]["value"]
        client.chat_postMessage(channel="C0SUPPORT", text=f"Espresso, {note}.")

    @app.command("/coffee")
    def command(ack):
        ack("It comes.")

    @app.event("app_home_opened")
    def home(event, client):
        client.views_publish(user_id=event["user"], view={"type": "home", "blocks": [BUTTON]})

    for each in (
        app.action("drink"),
        app.shortcut("again"),
        app.event("agent_session_stopped"),
        app.event("message"),
    ):
        each(lambda ack: ack())
    return app


if __name__ == "__main__":
    app = make(os.environ["SLACK_BOT_TOKEN"], os.environ["SLACK_API_URL"])
    SocketModeHandler(app, os.environ["SLACK_APP_TOKEN"]).start()
