// List of any length, of which only the visible rows are in the page; one row is selected with the mouse or the keyboard.

const ROW_PIXELS = 24;
const ROWS_BEYOND = 6;
let listsMade = 0;

/**
 * Create a list whose rows come from the kernel when they become visible.
 *
 * `fill(row)` returns children and class of a row from its data, `choose(index)` is called when a row is selected, and
 * `need([first, end])` is called for visible rows that are missing. A block of rows is `{version, count, first, rows}`: `show`
 * starts a new list with a block, `receive` adds the rows of a block that has the same version. `select(index, scroll)` selects a
 * row and, if `scroll`, brings it into sight, as `scrollTo(index)` does. `visible()` returns the range of visible rows.
 */
function createRowList(label, fill, choose, need) {
  const name = `h-list-${(listsMade += 1)}-${Math.random().toString(36).slice(2)}`;
  const seen = make("div", { class: "h-seen" });
  const whole = make("div", { class: "h-rows-whole" }, seen);
  const element = make("div", { class: "h-rows", role: "listbox", tabindex: "0", "aria-label": label }, whole);
  let [count, chosen, frame, version, known, asked] = [0, -1, 0, null, new Map(), null];

  const visible = () => {
    const first = Math.max(0, Math.floor(element.scrollTop / ROW_PIXELS) - ROWS_BEYOND);
    const end = Math.ceil((element.scrollTop + (element.clientHeight || 300)) / ROW_PIXELS) + ROWS_BEYOND;
    return [first, Math.max(first + 1, end)];
  };

  const paint = () => {
    frame = 0;
    const [first, end] = visible();
    const last = Math.min(count, end);
    const made = [];
    let missing = false;
    for (let index = first; index < last; index += 1) {
      missing ||= !known.has(index);
      const row = known.has(index) ? fill(known.get(index)) : { children: ["…"] };
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
    if (missing && asked !== `${version}:${first}`) {
      asked = `${version}:${first}`;
      need([first, last]);
    }
  };
  const schedulePaint = () => {
    frame ||= requestAnimationFrame(paint);
  };
  const scrollTo = (index) => {
    const [top, height] = [index * ROW_PIXELS, element.clientHeight || 300];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_PIXELS > element.scrollTop + height) element.scrollTop = top + ROW_PIXELS - height;
  };
  const select = (index, scroll = true) => {
    if (index < 0 || index >= count) return;
    chosen = index;
    if (scroll) scrollTo(index);
    schedulePaint();
    choose(index);
  };
  element.addEventListener("scroll", schedulePaint);
  element.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(element.clientHeight / ROW_PIXELS) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    select(Math.min(count - 1, Math.max(0, chosen + steps[event.key])));
  });
  const keep = (block) => block.rows.forEach((row, place) => known.set(block.first + place, row));
  const show = (block) => {
    [version, known, asked] = [block.version, new Map(), null];
    keep(block);
    count = block.count;
    chosen = Math.min(chosen, count - 1);
    whole.style.height = `${count * ROW_PIXELS}px`;
    schedulePaint();
  };
  const receive = (block) => {
    if (block.version !== version) return;
    asked = null;
    keep(block);
    schedulePaint();
  };
  return { element, show, receive, select, scrollTo, visible, chosen: () => chosen };
}
