// List of any length, of which only the visible rows are in the page; one row is selected with the mouse or the keyboard.

const ROW_PIXELS = 24;
const ROWS_BEYOND = 6;
let listsMade = 0;

/**
 * Create a list. `fill(index)` returns children and class of a row; `choose(index)` is called when a row is selected.
 * `show(count)` redraws the list; `select(index, bring)` selects a row and, if `bring`, scrolls to it.
 */
function rows(label, fill, choose) {
  const name = `h-list-${(listsMade += 1)}-${Math.random().toString(36).slice(2)}`;
  const seen = make("div", { class: "h-seen" });
  const whole = make("div", { class: "h-rows-whole" }, seen);
  const element = make("div", { class: "h-rows", role: "listbox", tabindex: "0", "aria-label": label }, whole);
  let [count, chosen, frame] = [0, -1, 0];

  const paint = () => {
    frame = 0;
    const first = Math.max(0, Math.floor(element.scrollTop / ROW_PIXELS) - ROWS_BEYOND);
    const last = Math.min(count, Math.ceil((element.scrollTop + (element.clientHeight || 300)) / ROW_PIXELS) + ROWS_BEYOND);
    const made = [];
    for (let index = first; index < last; index += 1) {
      const row = fill(index);
      made.push(
        make(
          "div",
          {
            class: `h-row ${row.class ?? ""}`, id: `${name}-${index}`, role: "option", "aria-selected": String(index === chosen),
            "aria-setsize": count, "aria-posinset": index + 1, on: { click: () => select(index, false) },
          },
          ...row.children,
        ),
      );
    }
    seen.replaceChildren(...made);
    seen.style.transform = `translateY(${first * ROW_PIXELS}px)`;
    if (chosen >= first && chosen < last) element.setAttribute("aria-activedescendant", `${name}-${chosen}`);
    else element.removeAttribute("aria-activedescendant");
  };
  const later = () => {
    frame ||= requestAnimationFrame(paint);
  };
  const select = (index, bring = true) => {
    if (index < 0 || index >= count) return;
    chosen = index;
    if (bring) {
      const [top, height] = [index * ROW_PIXELS, element.clientHeight || 300];
      if (top < element.scrollTop) element.scrollTop = top;
      else if (top + ROW_PIXELS > element.scrollTop + height) element.scrollTop = top + ROW_PIXELS - height;
    }
    later();
    choose(index);
  };
  element.addEventListener("scroll", later);
  element.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(element.clientHeight / ROW_PIXELS) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    select(Math.min(count - 1, Math.max(0, chosen + steps[event.key])));
  });
  const show = (now) => {
    count = now;
    chosen = Math.min(chosen, count - 1);
    whole.style.height = `${count * ROW_PIXELS}px`;
    paint();
  };
  return { element, show, select, chosen: () => chosen };
}
