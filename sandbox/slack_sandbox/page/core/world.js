// What the page knows: the latest state from the server, and how ids become names for whoever is looking.

export const world = {
  me: null, // user id of the person we act as
  team: null, // id of the workspace
  workspaces: [], // {id, name}: all of the sandbox
  people: new Map(), // id -> person
  apps: [], // {id, name, bot_user, bot_id, home_enabled, messages_enabled, commands, shortcuts}
  channels: new Map(), // id -> channel
  groups: new Map(), // id -> handle
  groupMembers: new Map(), // handle -> user ids
  messages: {}, // channel id -> messages, oldest first
  statuses: [],
  prompts: {},
  notifications: [],
  views: [],
  home: {}, // app id -> the Home view published for this person, or null
  joinable: [], // public channels this person is not in
  guide: null, // what the demo suggests to a first-time visitor
  bot: { id: "UBOT00001", name: "Countersign" }, // the first app
  now: 0, // the sandbox's time when it was last asked
  shift: 0, // seconds the sandbox's clock is ahead of this machine's
  seq: 0,
};

export const SLACKBOT = "USLACKBOT"; // who speaks for Slack itself
const asList = (value) => (Array.isArray(value) ? value : Object.entries(value ?? {}).map(([short, v]) => ({ short, ...v })));
const capital = (name) => name.charAt(0).toUpperCase() + name.slice(1); // user names are lower case, names of apps are not

/** Take in what /sandbox/people says. */
export function takePeople(answer) {
  for (const person of asList(answer.people ?? answer)) takePerson(person);
}

function takePerson(person) {
  const known = world.people.get(person.id) ?? {};
  const isBot = Boolean(person.is_bot);
  const name = person.real_name ?? person.profile?.real_name ?? person.name ?? person.id;
  const short = person.short ?? known.short ?? (person.real_name ? person.name : null) ?? name.split(" ")[0].toLowerCase();
  world.people.set(person.id, { ...known, ...person, name: isBot ? capital(name) : name, short, isBot });
  if (isBot && !world.apps.length) world.bot = { id: person.id, name: capital(name) };
}

/** Take in what /sandbox/state says. */
export function takeState(state) {
  for (const person of asList(state.people)) takePerson(person);
  for (const group of asList(state.groups)) {
    world.groups.set(group.id, group.handle ?? group.name);
    world.groupMembers.set(group.handle ?? group.name, group.users ?? []);
  }
  world.apps = takeApps(state);
  world.bot = world.apps.length ? { ...world.apps[0], id: world.apps[0].bot_user } : { id: "", name: "" }; // in a workspace without an app
  world.channels = new Map((state.channels ?? []).map((channel) => [channel.id, channel]));
  for (const key of ["messages", "prompts", "home"]) world[key] = state[key] ?? {};
  for (const key of ["statuses", "notifications", "views", "joinable"]) world[key] = state[key] ?? [];
  world.team = state.team ?? null;
  world.workspaces = state.workspaces ?? [];
  world.guide = state.guide ?? null;
  world.now = state.now ?? Date.now() / 1000;
  world.shift = world.now - Date.now() / 1000;
  world.seq = state.seq ?? 0;
}

function takeApps(state) {
  const bots = [...world.people.values()].filter((p) => p.isBot);
  const told = (state.apps ?? []).map((app) => ({ commands: [], shortcuts: [], ...app, name: world.people.get(app.bot_user)?.name ?? capital(app.name) }));
  return told.length ? told : bots.map((p) => ({ id: p.id, name: p.name, bot_user: p.id, commands: [], shortcuts: [] }));
}

/** The sandbox's time, epoch seconds. */
export const now = () => Date.now() / 1000 + world.shift;

export const person = (id) => world.people.get(id);
export const people = () => [...world.people.values()].filter((p) => !p.isBot && !p.elsewhere); // of this workspace

/** The app whose bot user (or bot id) that is. */
export const appOf = (id) => world.apps.find((app) => app.bot_user === id || (app.bot_id && app.bot_id === id));
export const isBot = (id) => id === world.bot.id || Boolean(person(id)?.isBot);

/** A person's or an app's name; the id where nobody knows it. */
export const userName = (id) => person(id)?.name ?? (id === world.bot.id ? world.bot.name : id === SLACKBOT ? "Slackbot" : id) ?? "Someone";
export const groupName = (id) => world.groups.get(id) ?? id;

/** Who wrote a message: a user id. */
export function authorOf(message) {
  if (message.user) return message.user;
  return appOf(message.bot_id)?.bot_user ?? (message.bot_id ? world.bot.id : null);
}

/** The other side of a direct message. */
export function otherSide(channel) {
  const others = (channel.members ?? []).filter((id) => id !== world.me);
  return others[0] ?? channel.user ?? world.me;
}

/** A channel's name without its sign; for direct messages the names of the others. */
export function channelName(id) {
  const channel = world.channels.get(id);
  if (!channel) return id;
  if (channel.is_im) return userName(otherSide(channel));
  if (channel.is_mpim) return channel.members.filter((each) => each !== world.me).map(userName).join(", ");
  return channel.name;
}

/** The same with # in front where it is a channel. */
export const channelTitle = (id) => `${isDirect(world.channels.get(id)) ? "" : "#"}${channelName(id)}`;

export const isDirect = (channel) => Boolean(channel?.is_im || channel?.is_mpim);
export const isBotDm = (channel) => Boolean(channel?.is_im) && isBot(otherSide(channel));

/** The DM with an app, as a channel, also before it was first opened. */
export function botDm(app = world.apps[0]) {
  const bot = app?.bot_user ?? world.bot.id;
  const found = [...world.channels.values()].find((c) => c.is_im && otherSide(c) === bot);
  return found ?? { id: `D${world.me.slice(1)}`, is_im: true, members: [world.me, bot], absent: true };
}

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
export const messagesOf = (channel) => world.messages[channel] ?? [];

/** The message at `ts` that this person sees, or undefined. */
export const findMessage = (channel, ts) => messagesOf(channel).find((m) => m.ts === ts);

/** Root and replies of one thread, oldest first. */
export const threadOf = (channel, threadTs) => messagesOf(channel).filter((m) => m.ts === threadTs || m.thread_ts === threadTs);

/** The top-level messages of a channel: no replies, except those also sent to the channel. */
export const topLevel = (channel) => messagesOf(channel).filter((m) => !isReply(m) || m.subtype === "thread_broadcast");

export const statusOf = (channel, threadTs) =>
  world.statuses.find((s) => s.channel === channel && (s.thread_ts || null) === (threadTs || null) && s.status);

/** "Countersign is thinking…": a status is a phrase that follows the app's name. */
export const statusText = (status) => `${appOf(status.user ?? status.bot_user ?? status.app)?.name ?? world.bot.name} ${status.status}`;
