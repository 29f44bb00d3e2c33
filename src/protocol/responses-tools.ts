/**
 * Owns the tools of the Responses API: the functions of a group become functions with the group in their names, and back.
 * It must never show the model a tool that nobody would run.
 */
import { invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { quoted } from './field.js';
import { TOOL_NAME_PATTERN } from './message-schema.js';
import type {
  WireInputTokens,
  WireResponseFunction,
  WireResponseTool,
} from './responses-schema.js';
import type { JsonObject } from './schema.js';
import type { WireToolChoice } from './tool.js';

/** A function as clients call it. */
export interface FunctionName {
  readonly name: string;
  readonly namespace?: string | null | undefined;
}

/** Functions of groups, by the names that the model knows. */
export type Namespaces = Readonly<Record<string, FunctionName>>;

/** Where a function stands in the request. */
interface Placed {
  readonly tool: WireResponseFunction;
  readonly namespace: string | null;
  readonly field: string;
}

const NAME = new RegExp(TOOL_NAME_PATTERN);
const SEPARATOR = '__';

export interface ReadTools {
  readonly tools: ReturnType<typeof chatTool>[];
  readonly namespaces: Namespaces;
  /** Types of those that are left out. */
  readonly leftOut: readonly string[];
  /** Where each stands, for errors that know it by its position among all functions. */
  readonly names: readonly (readonly [RegExp, string])[];
}

/** @throws ApiError for too many functions, and for a name that is too long. */
export function readResponseTools(sent: readonly WireResponseTool[]): ReadTools {
  const placed = sent.flatMap(functionsOf);
  if (placed.length > limits.toolsMax) {
    throw invalid(
      `tools must have at most ${limits.toolsMax} functions, got ${placed.length}`,
      'tools',
    );
  }
  const grouped = placed.filter(({ namespace }) => namespace !== null);
  for (const each of grouped) assertName(each);
  return {
    tools: placed.map(chatTool),
    namespaces: Object.fromEntries(
      grouped.map(({ tool: { name }, namespace }) => [
        functionName({ name, namespace }),
        { name, namespace },
      ]),
    ),
    leftOut: sent.flatMap(({ type }) => (isHosted(type) ? type : [])),
    names: placed.map(({ field }, at) => [new RegExp(`^tools\\[${at}\\]\\.function`), field]),
  };
}

/** As the model knows it. */
export function functionName({ name, namespace }: FunctionName): string {
  if (namespace === undefined || namespace === null) return name;
  return namespace + (namespace.endsWith(SEPARATOR) ? '' : SEPARATOR) + name;
}

export function functionOf(name: string, namespaces: Namespaces): FunctionName {
  return (Object.hasOwn(namespaces, name) ? namespaces[name] : undefined) ?? { name };
}

/** What a model does not have to use it may lack, and some clients name it in every request. */
function isHosted(type: string): boolean {
  return type !== 'function' && type !== 'namespace';
}

function functionsOf(tool: WireResponseTool, at: number): Placed[] {
  const field = `tools[${at}]`;
  if (tool.type === 'function') return [{ tool, namespace: null, field }];
  if (tool.type !== 'namespace') return [];
  const { name: namespace, description } = tool;
  return tool.tools.map((each, position) => ({
    tool: position === 0 && description ? introduced(each, description) : each,
    namespace,
    field: `${field}.tools[${position}]`,
  }));
}

/** What is said of the group stands once, before its first function. */
function introduced(tool: WireResponseFunction, description: string): WireResponseFunction {
  return { ...tool, description: [description, tool.description ?? ''].join('\n').trimEnd() };
}

function assertName({ tool: { name }, namespace, field }: Placed): void {
  const whole = functionName({ name, namespace });
  if (NAME.test(whole)) return;
  throw invalid(
    `${field}.name must match ${TOOL_NAME_PATTERN} behind the name of its group, got ${quoted(whole)}`,
    `${field}.name`,
  );
}

/** Without `strict` a schema is held as far as a grammar can: an API that makes it strict does no more for any of them. */
function chatTool({ tool, namespace }: Placed) {
  const { name, description, parameters, strict } = tool;
  return {
    type: 'function' as const,
    function: {
      name: functionName({ name, namespace }),
      ...(description ? { description } : {}),
      ...(parameters ? { parameters } : {}),
      ...(strict === undefined ? {} : { strict }),
    },
  };
}

export function toolChoice(choice: WireInputTokens['tool_choice']): WireToolChoice | null {
  if (choice === undefined || choice === null || typeof choice === 'string') return choice ?? null;
  const named = (tool: FunctionName) => ({
    type: 'function' as const,
    function: { name: functionName(tool) },
  });
  if (choice.type !== 'allowed_tools') return named(choice);
  const { type, mode, tools } = choice;
  return { type, allowed_tools: { mode: mode ?? 'auto', tools: tools.map(named) } };
}

/** Those that the model is shown. */
export function toolsShown(tools: readonly WireResponseTool[]): JsonObject[] {
  return tools.flatMap((tool): JsonObject[] => {
    if (tool.type === 'function') return [functionShown(tool)];
    if (tool.type !== 'namespace') return [];
    const { type, name, description } = tool;
    return [{ type, name, description: description ?? null, tools: tool.tools.map(functionShown) }];
  });
}

function functionShown({ name, description, parameters, strict }: WireResponseFunction) {
  return {
    type: 'function',
    name,
    description: description ?? null,
    parameters: parameters ?? null,
    strict: strict ?? null,
  };
}

export function choiceShown(
  choice: Exclude<WireInputTokens['tool_choice'], string | null | undefined>,
): JsonObject {
  const named = ({ type, name, namespace }: FunctionName & { readonly type: string }) => ({
    type,
    name,
    ...(namespace ? { namespace } : {}),
  });
  if (choice.type !== 'allowed_tools') return named(choice);
  return { type: choice.type, mode: choice.mode ?? 'auto', tools: choice.tools.map(named) };
}
