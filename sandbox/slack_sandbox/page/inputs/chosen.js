// What happens when something is chosen or entered: the confirm question, keeping it, telling the app.

import { confirmDialog } from "./dialog.js";
import { fieldOf, keep } from "./state.js";

/** Keep `value` for an element, and tell the app where it dispatches; false when the person said no to its question. */
export async function chosen(item, blockId, place, how, value) {
  if (how.dispatches && item.confirm && !(await confirmDialog(item.confirm))) return false;
  keep(item, blockId, place, value);
  if (how.dispatches) await place.act(item, blockId, { [fieldOf(item)]: value });
  return true;
}
