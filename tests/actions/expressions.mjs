// GitHub's own evaluator of expressions, as a process: a line of JSON in, a line of JSON out.
//
//   {"expression": "inputs.a == 'b'", "contexts": {"inputs": {…}}, "status": {"success": true, …}, "is_condition": false}
//   {"value": true, "text": "true"}     or     {"error": "Unrecognized named-value: 'input'"}
import { createInterface } from "node:readline";
import { data, Evaluator, Lexer, Parser } from "@actions/expressions";
import { truthy } from "@actions/expressions/result";

function evaluate({ expression, contexts, status, is_condition }) {
  const functions = new Map(
    Object.entries({ always: true, ...status }).map(([name, holds]) => [
      name,
      { name, minArgs: 0, maxArgs: 0, call: () => new data.BooleanData(holds) },
    ]),
  );
  const { tokens } = new Lexer(expression).lex();
  const parsed = new Parser(tokens, Object.keys(contexts), [...functions.values()]).parse();
  const known = JSON.parse(JSON.stringify(contexts), data.reviver);
  const found = parsed ? new Evaluator(parsed, known, functions).evaluate() : new data.BooleanData(true);
  if (is_condition) {
    // A condition without a status function also requires that everything before has succeeded.
    const asks = tokens.some((token, at) => functions.has(token.lexeme.toLowerCase()) && tokens[at + 1]?.lexeme === "(");
    return { value: truthy(found) && (asks || status.success) };
  }
  return { value: JSON.parse(JSON.stringify(found, data.replacer)), text: found.coerceString() };
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = evaluate(JSON.parse(line));
  } catch (error) {
    answer = { error: error.message };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
