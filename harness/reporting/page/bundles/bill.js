// Built by `make js` from the modules named below, in which changes belong.

// harness/widgets/js/numbers.js
var grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
function formatPercent(share, { signed = false } = {}) {
  const percent = Math.round(100 * share) || 0;
  return `${signed && percent >= 0 ? "+" : ""}${percent} %`;
}

// harness/widgets/js/untrusted_text.js
var SHAPELESS = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;
function reveal(value) {
  if (typeof value === "string") return value.replace(SHAPELESS, (sign) => "	\n\r".includes(sign) ? sign : formatCode(
  sign));
  if (Array.isArray(value)) return value.map(reveal);
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, reveal(item)]));
}
function formatCode(sign) {
  return `\\u${(sign.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`;
}

// harness/reporting/page/js/blocks.js
async function inflate(stream) {
  return reveal(JSON.parse(await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).text()));
}
async function readBlock(name) {
  const text = document.getElementById(name)?.textContent ?? "";
  const bytes = Uint8Array.from(atob(text.trim()), (sign) => sign.charCodeAt(0));
  return inflate(new Blob([bytes]).stream());
}

// harness/reporting/page/js/bill.js
function show({ stops, changes, places, frame }, stop) {
  const place = (change) => {
    const bounded = Math.min(Math.max(change ?? 0, frame.lowest), frame.highest);
    return frame.bottom - (bounded - frame.lowest) / (frame.highest - frame.lowest) * (frame.bottom - frame.top);
  };
  const output = document.getElementById("again-value");
  if (output) output.textContent = stops[stop].toLocaleString("en");
  for (const line of document.querySelectorAll("polyline[data-line]")) {
    const rule = Number(line.getAttribute("data-rule"));
    const points = places[Number(line.getAttribute("data-line"))];
    const shown = points.map(([x, setting]) => `${x},${place(changes[rule][setting][stop]).toFixed(1)}`);
    line.setAttribute("points", shown.join(" "));
  }
  for (const cell of document.querySelectorAll("td[data-setting]")) {
    const change = changes[Number(cell.getAttribute("data-rule"))][Number(cell.getAttribute("data-setting"))][stop];
    cell.textContent = change === null ? "" : formatPercent(change, { signed: true });
  }
}
var values = await readBlock("values");
var slider = document.getElementById("again");
if (slider instanceof HTMLInputElement) slider.addEventListener("input", () => show(values, Number(slider.value)));
document.documentElement.dataset.ready = "true";
