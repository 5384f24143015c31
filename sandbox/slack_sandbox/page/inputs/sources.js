// Where the rows of a select menu come from: {key, label, note?, group?, held}, `held` being what Slack reports.

import { channelName, otherSide, person, userName, world } from "../core/world.js";
import { plainText } from "../text/mrkdwn.js";

/** {row(held), find(query), waits?(query)}: `find` gives rows, `waits` the sentence while there is nothing to ask yet. */
export function source(item, blockId, place) {
  const kind = item.type.replace("multi_", "").replace("_select", "");
  if (kind === "external") return suggested(item, blockId, place);
  if (kind === "static") return { row: optionRow, find: (query) => matching(optionRows(item), query) };
  const rows = { users: people, channels: () => channels(), conversations: () => conversations(item.filter) }[kind];
  return { row: kind === "users" ? personRow : placeRow, find: (query) => matching(rows(), query) };
}

const plainly = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

function matching(rows, query) {
  const words = plainly(query).split(/\s+/).filter(Boolean);
  return rows.filter((row) => words.every((word) => plainly(`${row.label} ${row.note ?? ""}`).includes(word)));
}

// options

const optionRow = (option) => ({ key: option.value, label: plainText(option.text), note: option.description ? plainText(option.description) : null, held: option });

/** The rows of an element's or an answer's options, in their groups. */
export const optionRows = (item) =>
  item.option_groups ? item.option_groups.flatMap((group) => group.options.map((option) => ({ ...optionRow(option), group: plainText(group.label) }))) : (item.options ?? []).map(optionRow);

function suggested(item, blockId, place) {
  const least = item.min_query_length ?? 3; // Slack's default
  return {
    row: optionRow,
    waits: (query) => (query.trim().length >= least ? null : `Type at least ${least} ${least === 1 ? "character" : "characters"} to search.`),
    find: async (query) => optionRows(await place.suggest(item, blockId, query.trim())),
  };
}

// people and places

const personRow = (id) => ({ key: id, label: userName(id), note: person(id)?.isBot ? "App" : null, held: id });
const people = () => [...world.people.values()].filter((one) => !one.deleted).map((one) => personRow(one.id));

function placeRow(id) {
  const channel = world.channels.get(id);
  const named = channel && !channel.is_im && !channel.is_mpim;
  return { key: id, label: named ? `#${channel.name}` : channelName(id), note: channel?.is_private && named ? "Private channel" : null, held: id };
}

const channels = () => [...world.channels.values()].filter((one) => kindOf(one) === "public").map((one) => placeRow(one.id));
const kindOf = (one) => (one.is_mpim ? "mpim" : one.is_im ? "im" : one.is_private ? "private" : "public");

function conversations(filter = {}) {
  const wanted = (one) =>
    (!filter.include || filter.include.includes(kindOf(one))) && !(filter.exclude_external_shared_channels && one.is_ext_shared) &&
    !(filter.exclude_bot_users && one.is_im && person(otherSide(one))?.isBot);
  return [...world.channels.values()].filter(wanted).map((one) => placeRow(one.id));
}
