// Block elements: which module draws which. Each draws itself from its JSON and from what its place holds for it.
//
// `how` is {input, dispatches, labels}: the input block around it, if any; whether it tells the app when it changes; the
// ARIA attributes that name it.

import { button, feedbackButtons, iconButton, overflow } from "../inputs/buttons.js";
import { choices } from "../inputs/choices.js";
import { datePicker, dateTimePicker, textField, timePicker } from "../inputs/fields.js";
import { fileInput } from "../inputs/file_input.js";
import { richInput } from "../inputs/rich_input.js";
import { select } from "../inputs/select.js";
import { h } from "../widgets/dom.js";
import { imageFrame } from "./images.js";

/** Draw an element; `input` is the input block it stands in (which dispatches only when asked to). */
export function element(item, blockId, place, { input = null, labels = {} } = {}) {
  const draw = DRAW[item?.type] ?? (item?.type?.endsWith("_select") ? select : unknown);
  return draw(item, blockId, place, { input, labels, dispatches: input ? Boolean(input.dispatch_action) : true });
}

const unknown = (item) => h("span", { class: "placeholder", "data-testid": "unknown" }, `This sandbox does not draw “${item?.type}” elements.`);

const DRAW = {
  button, overflow, feedback_buttons: feedbackButtons, icon_button: iconButton, workflow_button: button,
  checkboxes: choices("checkbox"), radio_buttons: choices("radio"),
  plain_text_input: textField("text"), number_input: textField("text", "decimal"), email_text_input: textField("email"), url_text_input: textField("url"),
  rich_text_input: richInput, file_input: fileInput,
  datepicker: datePicker, timepicker: timePicker, datetimepicker: dateTimePicker,
  image: (item) => imageFrame(item, "accessory-image"),
};
