// Builds the scripts and styles that Python loads, each from one module and all that it imports: `node bundle.js [FOLDER]`.
// The files are written below FOLDER, which is the top of the repository by default.

import { build } from "esbuild";

const BUNDLES = {
  "harness/reporting/page/bundles/bill": "harness/reporting/page/js/bill.js",
  "harness/reporting/page/bundles/page": "harness/reporting/page/js/page.js",
  "harness/widgets/bundles/agent": "harness/widgets/js/agent.js",
  "harness/widgets/bundles/explorer": "harness/widgets/js/explorer.js",
  "harness/widgets/bundles/grid": "harness/widgets/js/grid.js",
  "harness/widgets/bundles/grid_form": "harness/widgets/js/grid_form.js",
  "harness/widgets/bundles/inspector": "harness/widgets/js/inspector.js",
  "tests/widgets/bundles/list": "tests/widgets/js/list.js",
};
const NOTE = "Built by `make js` from the modules named below, in which changes belong.";

try {
  await build({
    entryPoints: Object.entries(BUNDLES).map(([output, module]) => ({ in: module, out: output })),
    outdir: process.argv[2] ?? ".",
    bundle: true,
    format: "esm",
    charset: "utf8",
    lineLimit: 110, // a line may end a few characters later
    banner: { js: `// ${NOTE}`, css: `/* ${NOTE} */` },
    logLevel: "error",
  });
} catch {
  process.exitCode = 1; // the error has been printed
}
