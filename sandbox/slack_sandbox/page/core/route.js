// Where the page is: the address after # is /channel, /channel/thread or /dm/home.

export const route = { channel: null, thread: null, home: false };
const HOME = "home";

export const address = (channel, thread = null) => `#/${channel}${thread ? `/${thread}` : ""}`;
export const homeAddress = (channel) => address(channel, HOME);

/** Take the route from the address. */
export function readRoute() {
  const [, channel, rest] = location.hash.split("/").map(decodeURIComponent);
  const home = rest === HOME;
  Object.assign(route, { channel: channel || null, thread: home ? null : rest || null, home });
}

/** Write an address; `replace` leaves no step to go back to. */
export function setAddress(hash, replace = false) {
  if (replace) history.replaceState(null, "", hash);
  else if (location.hash !== hash) history.pushState(null, "", hash);
}

/** This page's address with another query and hash; the workspace is the query's `team`, the first one where it has none. */
export function here(changes, hash) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) query.set(name, value);
  return `?${query}${hash}`;
}

/** The server leads permalinks here as ?channel=…&ts=…&thread_ts=… */
export function arriveByPermalink() {
  const query = new URLSearchParams(location.search);
  const channel = query.get("channel");
  if (!channel) return;
  const thread = query.get("thread_ts") || query.get("ts");
  for (const name of ["channel", "ts", "thread_ts"]) query.delete(name);
  setAddress(`?${query}${address(channel, thread)}`, true);
}

/** Room for a thread beside its channel; and for a side panel beside both. */
export const wide = () => matchMedia("(min-width: 1000px)").matches;
export const roomy = () => matchMedia("(min-width: 1440px)").matches;
export const phone = () => matchMedia("(max-width: 700px)").matches;
