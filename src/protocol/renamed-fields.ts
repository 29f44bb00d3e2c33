/**
 * Owns how an error names a field when the request came in another wire form than the check below it knows.
 * It must never change what an error says besides the name of the field.
 */
import { ApiError } from '../errors.js';

type Names = readonly (readonly [from: RegExp, to: string])[];

/** Runs a check; the fields in its error get the names that the client wrote. @param names match the beginning. */
export function renamedFields<Value>(names: Names, check: () => Value): Value {
  try {
    return check();
  } catch (cause) {
    if (!(cause instanceof ApiError)) throw cause;
    throw renamed(names, cause);
  }
}

function renamed(names: Names, error: ApiError): ApiError {
  const { row, values, extra } = error;
  const details = values.error_details;
  const name = (text: string) => {
    const found = names.find(([from]) => from.test(text));
    return found === undefined ? text : text.replace(...found);
  };
  return new ApiError(
    row,
    typeof details === 'string' ? { ...values, error_details: name(details) } : values,
    extra.param === undefined ? extra : { ...extra, param: name(extra.param) },
  );
}
