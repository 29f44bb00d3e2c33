/**
 * Owns a process that loads the modules named on its command line while native addons and WebAssembly are refused.
 * It must never load anything else of the project: each attempt it prints is one of those modules'.
 */
const attempts: string[] = [];

function refuse(what: string): never {
  attempts.push(what);
  throw new Error(`loading ${what} is refused`);
}

// The loader of `.node` files calls this function too.
process.dlopen = (_module: object, filename: string) => refuse(filename);
const refuseProgram = () => refuse('a WebAssembly program');
// Node has it, but the types of Node 20 omit it.
const wasm = Reflect.get(globalThis, 'WebAssembly') as Record<string, unknown>;
wasm.compile = refuseProgram;
wasm.instantiate = refuseProgram;
// `new` calls it too, since it is a plain function.
wasm.Module = function module(): void {
  refuseProgram();
};

for (const module of process.argv.slice(2)) await import(module);
console.log(JSON.stringify(attempts));
