"""Tries the README's tool with the real bot, a local Slack and a scripted model.

PYTHONPATH=. .venv/bin/python docs/try_duty.py    # duty_tools.py is in the working directory
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from duty_tools import put_on_duty

from bot.app import build
from bot.config.settings import Settings
from bot.demo.model_server import StandInPlanner, Turn
from bot.policy.evaluation import parse
from slack_sandbox.server import Sandbox

with TemporaryDirectory() as folder, Sandbox() as slack, StandInPlanner() as model:
    policy = Path(folder, "policy.toml")
    policy.write_text('[defaults]\napprovers = ["@shop-leads"]\n')
    settings = Settings.load(
        {
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_APP_TOKEN": slack.app_token,
            "SLACK_API_URL": slack.api_url,
            "OPENAI_API_KEY": "offline",
            "OPENAI_BASE_URL": model.url,
            "DATABASE_URL": f"sqlite:///{folder}/countersign.db",
            "COUNTERSIGN_POLICY": str(policy),
        }
    )
    app = build(settings, slack.clock, parse(policy.read_text()), [put_on_duty])
    app.start()
    try:
        model.script(
            Turn(calls=[("put_on_duty", {"person": "Cleo"})]), Turn(text="Cleo has the phone.")
        )
        thread = slack.person("ben").say("C0SUPPORT", "@bot Cleo takes over")

        def saying(words):
            found = slack.person("ana").messages("C0SUPPORT", thread)
            return next((each for each in found if words in str(each["blocks"])), None)

        card = slack.wait(lambda: saying("Put Cleo on duty for 8 hours"))
        slack.person("ana").click("C0SUPPORT", card["ts"], "approve")
        slack.wait(lambda: saying("Cleo has the phone."))
    finally:
        app.stop()
sys.stdout.write(f"{Path('duty.txt').read_text()}\n")
