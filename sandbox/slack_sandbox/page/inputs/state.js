// What the elements of a message or view hold: what a person chose or typed, else what the JSON starts with.
//
// A place (place.js) keeps only what was touched, in `place.state`: {block_id: {action_id: state as Slack reports it}}.
// Nothing here draws.

/** Element type -> [key of its value in a state, key of the initial value, value when there is none]. */
const HELD = {
  plain_text_input: ["value", "initial_value", null],
  email_text_input: ["value", "initial_value", null],
  url_text_input: ["value", "initial_value", null],
  number_input: ["value", "initial_value", null],
  rich_text_input: ["rich_text_value", "initial_value", null],
  static_select: ["selected_option", "initial_option", null],
  external_select: ["selected_option", "initial_option", null],
  radio_buttons: ["selected_option", "initial_option", null],
  checkboxes: ["selected_options", "initial_options", []],
  multi_static_select: ["selected_options", "initial_options", []],
  multi_external_select: ["selected_options", "initial_options", []],
  users_select: ["selected_user", "initial_user", null],
  multi_users_select: ["selected_users", "initial_users", []],
  conversations_select: ["selected_conversation", "initial_conversation", null],
  multi_conversations_select: ["selected_conversations", "initial_conversations", []],
  channels_select: ["selected_channel", "initial_channel", null],
  multi_channels_select: ["selected_channels", "initial_channels", []],
  datepicker: ["selected_date", "initial_date", null],
  timepicker: ["selected_time", "initial_time", null],
  datetimepicker: ["selected_date_time", "initial_date_time", null],
  file_input: ["files", "", []],
};

export const isStateful = (item) => item?.type in HELD;
export const fieldOf = (item) => HELD[item.type][0];

function initial(item, place) {
  const [key, source, nothing] = HELD[item.type];
  const here = place.channel && item.default_to_current_conversation ? (Array.isArray(nothing) ? [place.channel] : place.channel) : nothing;
  return { type: item.type, [key]: item[source] ?? here };
}

/** The state of an element, to be read only; `keep` writes it. */
export function stateOf(item, blockId, place) {
  const held = place.state[blockId]?.[item.action_id] ?? place.known?.()?.[blockId]?.[item.action_id];
  return held?.type === item.type ? held : initial(item, place);
}

/** What an element holds, without its type. */
export const valueOf = (item, blockId, place) => stateOf(item, blockId, place)[fieldOf(item)];

/** Hold a new value for an element. */
export function keep(item, blockId, place, value) {
  (place.state[blockId] ??= {})[item.action_id] = { type: item.type, [fieldOf(item)]: value };
  place.touched?.(blockId);
}

/** Every element in a list of blocks with its block: [[block, element], …], those inside containers included. */
export function elementsIn(blocks) {
  return (blocks ?? []).flatMap((block) => [
    ...[block.element, block.accessory, ...(block.type === "actions" ? block.elements ?? [] : [])].filter(Boolean).map((item) => [block, item]),
    ...elementsIn(block.child_blocks),
  ]);
}

/** The state of every element in the blocks, as Slack reports it: {block_id: {action_id: state}}. */
export function collect(blocks, place) {
  const values = {};
  for (const [block, item] of elementsIn(blocks)) {
    if (isStateful(item)) (values[block.block_id] ??= {})[item.action_id] = stateOf(item, block.block_id, place);
  }
  return structuredClone(values);
}

// ---- what the client checks before it submits ---------------------------------------------------------------------

const isEmpty = (value) => value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length);

/** Slack's own checks of one input block; a sentence, or null when all is well. */
export function problem(block, place) {
  const item = block.element;
  if (!isStateful(item)) return null;
  const value = valueOf(item, block.block_id, place);
  if (isEmpty(value)) return block.optional ? null : "Please fill in this field.";
  return CHECKS[item.type]?.(item, value) ?? null;
}

const CHECKS = {
  plain_text_input: lengthProblem,
  number_input: numberProblem,
  email_text_input: (_, value) => (/^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(value) ? null : "Please enter an e-mail address."),
  url_text_input: (_, value) => (/^https?:\/\/\S+$/i.test(value) ? null : "Please enter a web address that starts with http:// or https://."),
};

/** Characters as Slack counts them: an emoji is one. */
export const lengthOf = (text) => [...(text ?? "")].length;

function lengthProblem(item, value) {
  const length = lengthOf(value);
  if (item.min_length && length < item.min_length) return `Please enter at least ${item.min_length} characters.`;
  const most = item.max_length ?? 3000;
  return length > most ? `Please enter at most ${most} characters; these are ${length}.` : null;
}

function numberProblem(item, text) {
  if (!/^[+-]?(\d+\.?\d*|\.\d+)$/.test(text.trim())) return "Please enter a number.";
  if (!item.is_decimal_allowed && /\./.test(text)) return "Please enter a whole number.";
  if (item.min_value !== undefined && Number(text) < Number(item.min_value)) return `Please enter a number of at least ${item.min_value}.`;
  if (item.max_value !== undefined && Number(text) > Number(item.max_value)) return `Please enter a number of at most ${item.max_value}.`;
  return null;
}
