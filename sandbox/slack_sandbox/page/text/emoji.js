// The emoji shortcodes this page draws; any other stays as its :name:.

const LIST = `
white_check_mark ✅ heavy_check_mark ✔️ x ❌ no_entry ⛔ no_entry_sign 🚫 warning ⚠️ information_source ℹ️ question ❓ exclamation ❗
hourglass ⌛ hourglass_flowing_sand ⏳ alarm_clock ⏰ rotating_light 🚨 stopwatch ⏱️ clock1 🕐 calendar 📅 spiral_calendar_pad 🗓️ bell 🔔 no_bell 🔕
lock 🔒 unlock 🔓 key 🔑 shield 🛡️ rocket 🚀 fire 🔥 boom 💥 zap ⚡ bulb 💡 mag 🔍 gear ⚙️ wrench 🔧 hammer 🔨 robot_face 🤖
memo 📝 pencil ✏️ pencil2 ✏️ clipboard 📋 package 📦 truck 🚚 moneybag 💰 credit_card 💳 money_with_wings 💸 receipt 🧾 euro 💶 shopping_trolley 🛒
wave 👋 thumbsup 👍 +1 👍 thumbsdown 👎 -1 👎 ok_hand 👌 clap 👏 pray 🙏 eyes 👀 raised_hand ✋ point_right 👉 point_down 👇 muscle 💪 handshake 🤝
smile 😄 slightly_smiling_face 🙂 grin 😁 joy 😂 wink 😉 blush 😊 thinking_face 🤔 neutral_face 😐 confused 😕 cry 😢 sob 😭 sweat_smile 😅 tada 🎉
heart ❤️ green_heart 💚 star ⭐ sparkles ✨ sunny ☀️ coffee ☕ pizza 🍕 house 🏠 email 📧 envelope ✉️ phone ☎️ link 🔗 pushpin 📌
red_circle 🔴 large_yellow_circle 🟡 large_green_circle 🟢 large_blue_circle 🔵 white_circle ⚪ black_circle ⚫ large_orange_circle 🟠
arrow_right ➡️ arrow_left ⬅️ arrow_up ⬆️ arrow_down ⬇️ leftwards_arrow_with_hook ↩️ repeat 🔁 arrows_counterclockwise 🔄 octagonal_sign 🛑
speech_balloon 💬 busts_in_silhouette 👥 bust_in_silhouette 👤 bar_chart 📊 chart_with_upwards_trend 📈 wastebasket 🗑️ construction 🚧 100 💯
one 1️⃣ two 2️⃣ three 3️⃣ four 4️⃣ five 5️⃣ hash #️⃣ page_facing_up 📄 inbox_tray 📥 outbox_tray 📤 label 🏷️ scroll 📜 ballot_box_with_check ☑️`;

const EMOJI = new Map();
const words = LIST.trim().split(/\s+/);
for (let i = 0; i + 1 < words.length; i += 2) EMOJI.set(words[i], words[i + 1]);

/** The character for a shortcode without colons, or null; `tone` 1 to 6 is Slack's, of which 1 is none. */
export function emoji(name, tone = 1) {
  const [, bare, own] = /^(.*?)(?:::skin-tone-([2-6]))?$/.exec(name);
  const found = EMOJI.get(bare) ?? null;
  const skin = Number(own ?? tone);
  return found && skin > 1 && skin < 7 && /^\p{Emoji_Modifier_Base}\ufe0f?$/u.test(found) ? found.replace("\ufe0f", "") + String.fromCodePoint(0x1f3f9 + skin) : found;
}

/** The character for code points as Slack writes them ("1f468-200d-1f680"), or null. */
export function fromCodes(unicode) {
  const codes = String(unicode ?? "").split("-").map((c) => Number.parseInt(c, 16));
  return codes.every((c) => c > 0 && c <= 0x10ffff) ? String.fromCodePoint(...codes) : null;
}

/** Text with known :shortcodes: replaced. */
export const withEmoji = (text) => text.replace(/:([a-z0-9_+-]+(?:::skin-tone-[2-6])?):/g, (whole, name) => emoji(name) ?? whole);
