// GitHub's own parser of workflow files, as a process: paths as arguments, a line of text for each fault.
//
//   …/evaluate.yml (Line: 36, Col: 5): Unexpected value 'cache-modes'
import { readFileSync } from "node:fs";
import { register } from "node:module";

// The package imports its schemas without saying that they are JSON, which only bundlers take.
const hooks = `
  import { readFile } from "node:fs/promises";
  export async function load(url, context, next) {
    if (!url.endsWith(".json")) return next(url, context);
    return { format: "module", shortCircuit: true, source: "export default " + (await readFile(new URL(url), "utf8")) };
  }`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
const { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } = await import("@actions/workflow-parser");

for (const file of process.argv.slice(2)) {
  const { context, value } = parseWorkflow({ name: file, content: readFileSync(file, "utf8") }, new NoOperationTraceWriter());
  if (value) await convertWorkflowTemplate(context, value);
  for (const error of context.errors.getErrors()) process.stdout.write(`${error.message}\n`);
}
