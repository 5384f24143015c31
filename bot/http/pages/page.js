// Asks the authenticator, posts its answer, and says what became of it. The page holds all it needs.
"use strict";
(() => {
  const WORDS = {
    blind: "This browser can’t use passkeys. Open the same link in Safari, Chrome, Edge or Firefox.",
    asking: "Your device is asking you…",
    NotAllowedError: "Your device did not confirm it, or has no passkey of yours. Nothing has changed; you can try again.",
    InvalidStateError: "This device has a passkey here already, so nothing has changed.",
    SecurityError: "Passkeys don’t work at this address, so nothing has changed. Please tell whoever runs Countersign.",
    failed: "Your device could not do this, so nothing has changed. You can try again.",
    sending: "Sending it…",
    offline: "It could not be sent. Check your connection, then try again.",
    deciding: "Signed and sent. One moment…",
    slow: "Signed and sent, and still being decided. Slack will tell you how it went.",
    late: "The link has expired, so nothing has changed. Press the button in Slack again for a new one.",
  };
  for (const time of document.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    const day = at.toDateString() === new Date().toDateString() ? {} : { dateStyle: "medium" };
    time.title = time.textContent;
    time.textContent = at.toLocaleString([], { ...day, timeStyle: "short" });
  }
  const form = document.querySelector("footer");
  if (!form) return;
  const [button, said, more] = ["button", "[role=status]", ".more"].map((each) => form.querySelector(each));
  const software = form.querySelector(".software"); // in the demo, where a browser may have no authenticator
  const all = [button, software].filter(Boolean);
  const name = document.querySelector("input");
  const url = location.pathname;
  let credential = null; // what the authenticator answered, until it is taken

  const decode = (text) =>
    Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
  const encode = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer)))
      .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

  const decodeId = (each) => ({ ...each, id: decode(each.id) });

  function readOptions() {
    const asked = JSON.parse(form.dataset.options);
    const lists = ["allowCredentials", "excludeCredentials"].filter((each) => asked[each]);
    return {
      ...asked,
      challenge: decode(asked.challenge),
      ...(asked.user && { user: decodeId(asked.user) }),
      ...Object.fromEntries(lists.map((each) => [each, asked[each].map(decodeId)])),
    };
  }

  // as toJSON() does it, which what some password managers put in its place does not have
  function writeCredential({ id, rawId, type, response }) {
    const parts = ["clientDataJSON", "authenticatorData", "signature", "attestationObject"];
    const found = parts.filter((each) => response[each]).map((each) => [each, encode(response[each])]);
    const transports = response.getTransports?.() ?? [];
    return { id, rawId: encode(rawId), type, response: { ...Object.fromEntries(found), transports } };
  }

  const wait = (words) => { said.textContent = words; all.forEach((each) => { each.disabled = true; }); };
  const offer = (words) => { said.textContent = words; all.forEach((each) => { each.disabled = false; }); all[0].focus(); };
  const end = (words) => { said.textContent = words; all.forEach((each) => each.remove()); more.remove(); form.classList.add("over"); };

  async function press({ currentTarget }) {
    try {
      wait(WORDS.asking);
      if (currentTarget === software) credential = { software: true };
      else credential ??= writeCredential(await navigator.credentials[form.dataset.act]({ publicKey: readOptions() }));
    } catch (error) {
      return (error.name === "SecurityError" ? end : offer)(WORDS[error.name] ?? WORDS.failed);
    }
    try {
      wait(WORDS.sending);
      const body = JSON.stringify({ ...credential, name: name?.value ?? "" });
      const answer = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body });
      if (answer.status === 202) return await follow();
      return (answer.status === 503 ? offer : end)((await answer.json()).detail);
    } catch {
      return offer(WORDS.offline);
    }
  }

  async function follow() {
    wait(WORDS.deciding);
    for (let asked = 0; asked < 45; asked++) {
      await new Promise((done) => setTimeout(done, asked < 5 ? 300 : 2000));
      const answer = await fetch(`${url}/outcome`).catch(() => null);
      if (answer?.status === 200) return end((await answer.json()).detail);
    }
    return end(WORDS.slow);
  }

  if (!window.PublicKeyCredential && !software) return end(WORDS.blind);
  if (!window.PublicKeyCredential || !form.dataset.act) all.shift().remove();
  for (const each of all) {
    each.hidden = false;
    each.addEventListener("click", press);
  }
  name?.addEventListener("keydown", (event) => event.key === "Enter" && all[0].click());
  setTimeout(() => all[0].disabled || end(WORDS.late), form.dataset.seconds * 1000);
  const seen = ([each]) => { more.hidden = each.isIntersecting; };
  // what lies behind the footer is not seen
  new IntersectionObserver(seen, { rootMargin: `0px 0px -${form.offsetHeight}px` }).observe(document.querySelector(".end"));
})();
