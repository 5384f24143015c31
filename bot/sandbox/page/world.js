// What the page knows: the latest state from the server, and how ids become names for whoever is looking.

export const world = {
  me: null, // user id of the person we act as
  people: new Map(), // id -> person
  channels: new Map(), // id -> channel
  groups: new Map(), // id -> handle
  messages: {}, // channel id -> messages, oldest first
  statuses: [],
  prompts: {},
  notifications: [],
  views: [],
  bot: { id: "UBOT00001", name: "Countersign" },
  shift: 0, // seconds the demo's clock is ahead of this machine's
};

const asList = (value) => (Array.isArray(value) ? value : Object.entries(value ?? {}).map(([short, v]) => ({ short, ...v })));

/** Take in what /sandbox/people says. */
export function takePeople(answer) {
  for (const person of asList(answer.people ?? answer)) takePerson(person);
  for (const group of asList(answer.groups ?? answer.usergroups ?? [])) world.groups.set(group.id, group.handle ?? group.name);
}

function takePerson(person) {
  const known = world.people.get(person.id) ?? {};
  const name = person.real_name ?? person.profile?.real_name ?? person.name ?? person.id;
  const short = person.short ?? person.key ?? known.short ?? (person.real_name ? person.name : null) ?? name.split(" ")[0].toLowerCase();
  const merged = { ...known, ...person, name, short, isBot: Boolean(person.is_bot) };
  world.people.set(person.id, merged);
  if (merged.isBot) nameBot(merged.id, merged.name);
}

/** The app's name as Slack's header would show it: user names are lower case, names of apps are not. */
function nameBot(id, name) {
  world.bot = { id, name: name.charAt(0).toUpperCase() + name.slice(1) };
}

/** Take in what /sandbox/state says. */
export function takeState(state) {
  for (const person of asList(state.people)) takePerson(person);
  for (const group of asList(state.groups ?? state.usergroups ?? [])) world.groups.set(group.id, group.handle ?? group.name);
  if (state.bot?.id) nameBot(state.bot.id, state.bot.name ?? world.bot.name);
  world.channels = new Map((state.channels ?? []).map((channel) => [channel.id, channel]));
  world.messages = state.messages ?? {};
  world.statuses = state.statuses ?? [];
  world.prompts = state.prompts ?? {};
  world.notifications = state.notifications ?? [];
  world.views = state.views ?? [];
  world.shift = (state.now ?? Date.now() / 1000) - Date.now() / 1000;
}

/** The demo's time, epoch seconds. */
export const now = () => Date.now() / 1000 + world.shift;

export const person = (id) => world.people.get(id);

/** A person's or the bot's name; the id where nobody knows it. */
export function userName(id) {
  if (id === world.bot.id) return world.bot.name;
  return world.people.get(id)?.name ?? id ?? "Someone";
}

export const groupName = (id) => world.groups.get(id) ?? id;

/** The other side of a direct message. */
export function otherSide(channel) {
  const others = (channel.members ?? []).filter((id) => id !== world.me);
  return others[0] ?? channel.user ?? world.me;
}

/** A channel's name without its sign; for a direct message the other one's name. */
export function channelName(id) {
  const channel = world.channels.get(id);
  if (!channel) return id;
  return channel.is_im ? userName(otherSide(channel)) : channel.name;
}

export const isBotDm = (channel) => Boolean(channel?.is_im) && otherSide(channel) === world.bot.id;

/** The reader's time zone: the person's own, else this browser's. */
export function zone() {
  const wanted = world.people.get(world.me)?.tz;
  if (!wanted) return undefined;
  try {
    new Intl.DateTimeFormat("en", { timeZone: wanted });
    return wanted;
  } catch {
    return undefined;
  }
}

export const isReply = (message) => Boolean(message.thread_ts) && message.thread_ts !== message.ts;

/** Root and replies of one thread, oldest first. */
export function threadOf(channel, threadTs) {
  return (world.messages[channel] ?? []).filter((m) => m.ts === threadTs || m.thread_ts === threadTs);
}

export const statusOf = (channel, threadTs) =>
  world.statuses.find((s) => s.channel === channel && (s.thread_ts || null) === (threadTs || null) && s.status);
