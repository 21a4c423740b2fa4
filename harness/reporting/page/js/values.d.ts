/** Values of the page as Python sends them; `values.py` and `session_blocks.py` document their meaning. */

export interface Values {
  parts: Part[];
  standing: string;
  is_withheld: boolean;
  planned: number;
  headlines: [lead: string, rest: string][];
  inspect_command: string;
  view_command: string;
  explain_command: string;
  served: boolean;
  digest: string;
  about_sessions: string;
  sections: Section[];
}

export interface Section {
  heading: string;
  columns: string[];
  rows: string[][];
  notes: string[];
  is_detail: boolean;
  /** Arm, or `A against B`, from whose trials each row is computed; empty if the rows have no such source. */
  sources: string[];
  /** Share of each row that is drawn as a bar; empty without bars. */
  bars: number[];
}

export interface Metric {
  name: string;
  label: string;
  unit: string;
  kind: "rate" | "bounded" | "amount";
  about: string;
  ratio: boolean;
}

export type Size = number | null;
export type Estimate = [n: number, value: Size, low: Size, high: Size, text: string, interval: string];
export type Verdict = "better" | "worse" | "not shown";
export type Effect = [...Estimate, verdict: Verdict, estimand: string, declared?: string];
export type ByBaseline<T> = Record<string, Record<string, Record<number, T>>>;

/** Shades of cells, and the values of the darkest and the brightest one. */
export interface Scale<T> {
  shades: T[];
  low: Size;
  high: Size;
}

/** Values of one fidelity level. While outcomes are withheld, all that depends on them is missing. */
export interface Part {
  level: string;
  metric: string;
  metrics: Metric[];
  baselines: number[];
  arms: Arm[];
  fronts: Record<string, number[]>;
  effects: ByBaseline<Effect>;
  task_effects: ByBaseline<(Estimate | null)[]>;
  story: Story | null;
  pair_queries: Record<string, Record<number, [number: string, sql: string][]>>;
  verdicts: Record<Verdict, string>;
  about_verdicts: string;
  about: string;
  tasks: string[];
  task_cells: Record<string, (Estimate | null)[][]> | null;
  tables: AxisTable[];
  shades: {
    arms: Record<string, Scale<Size>>;
    tasks: Record<string, Scale<Size[]>>;
    effects: ByBaseline<Size>;
    task_effects: ByBaseline<Size[]>;
  };
  trials: Trials;
  /** Names and titles of the checks that failed in any trial; `trials.failed` has their indices. */
  checks?: [name: string, title: string][];
}

export interface Arm {
  name: string;
  label: string;
  mark: string;
  settings: string;
  badge: string;
  standing: string;
  repeats: string;
  n: number;
  finished: number;
  excluded: number;
  overflow: number;
  cells: Record<string, Estimate>;
  queries: [number: string, sql: string][];
}

export type StoryStep = [step: number, tokens: number, before: Size];

/** Session of one loss and its consequence. */
export interface StorySide {
  arm: string;
  mark: string;
  trial: string;
  fate: string;
  use: string;
  round_step: number;
  use_step: number;
  has_failed: boolean;
  steps: StoryStep[];
}

export interface Story {
  title: string;
  example: string;
  task: string;
  seed: number;
  check: string;
  sides: [StorySide, StorySide];
}

export interface AxisTable {
  title: string;
  down: string;
  across: string;
  rows: string[];
  columns: string[];
  cells: number[][];
}

/** Columns of the table of trials; each metric is a column, too. */
export interface Trials {
  [metric: string]: unknown[];
  id: string[];
  arm: number[];
  task: string[];
  seed: number[];
  replicate: number[];
  session: string[];
  block: number[];
  outcome: string[];
  error: string[];
  compactions: Size[];
  failed: number[][];
}

export type Message = [role: string, line: string, text: string];
export type Reference = [block: number, index: number];

export interface StoredStep {
  facts: [name: string, text: string][];
  sent: [first: number, length: number][];
  new: number;
  answer: number;
  results: number[];
  compactions: { title: string; reason: string; summary: string }[];
  patch: string | null;
}

export interface StoredBlock<Row> {
  session: object;
  messages: Row[];
  steps: StoredStep[];
  autopsies: object[];
}
