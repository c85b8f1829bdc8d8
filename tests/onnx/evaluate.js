// Evaluates ONNX models on the CPU. Standard input: a list of {model, dims, data}, data being the floats of `input` in order;
// standard output: for each the list of {name, dims, data} of its outputs.
"use strict";
const ort = require("onnxruntime-node");

async function evaluate({ model, dims, data }) {
  const session = await ort.InferenceSession.create(model, { executionProviders: ["cpu"] });
  const outputs = await session.run({ input: new ort.Tensor("float32", Float32Array.from(data), dims) });
  return session.outputNames.map((name) => ({ name, dims: outputs[name].dims, data: Array.from(outputs[name].data) }));
}

async function main() {
  let text = "";
  for await (const chunk of process.stdin) text += chunk;
  const answers = [];
  for (const task of JSON.parse(text)) answers.push(await evaluate(task));
  process.stdout.write(JSON.stringify(answers));
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exitCode = 1;
});
