/**
 * Owns the grammars of string formats.
 * It must never be laxer than the format where its shape is a grammar; what needs arithmetic (days of February) it leaves.
 */
const DATE = '[0-9]{4} "-" ( "0" [1-9] | "1" [0-2] ) "-" ( "0" [1-9] | [12] [0-9] | "3" [01] )';
const TIME =
  '( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] ":" [0-5] [0-9] ( "." [0-9]{1,6} )? ( "Z" | [+-] ( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] )';
const LABEL = '[a-zA-Z0-9] ( [a-zA-Z0-9-]{0,30} [a-zA-Z0-9] )?';
const HOST = `${LABEL} ( "." ${LABEL} ){0,8}`;
const BYTE = '( "25" [0-5] | "2" [0-4] [0-9] | "1" [0-9]{2} | [1-9]? [0-9] )';
const COUNT = '[0-9]{1,4}';
const CLOCK = `"T" ( ${COUNT} "H" ( ${COUNT} "M" )? ( ${COUNT} "S" )? | ${COUNT} "M" ( ${COUNT} "S" )? | ${COUNT} "S" )`;
const DAYS = `( ${COUNT} "Y" ( ${COUNT} "M" )? ( ${COUNT} "D" )? | ${COUNT} "M" ( ${COUNT} "D" )? | ${COUNT} "D" )`;

/** What stands between the quotes. */
export const formats: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE} "T" ${TIME}`,
  duration: `"P" ( ${DAYS} ( ${CLOCK} )? | ${CLOCK} | ${COUNT} "W" )`,
  email: `[a-zA-Z0-9] [a-zA-Z0-9._+-]{0,40} "@" ${LABEL} ( "." ${LABEL} ){1,8}`,
  hostname: HOST,
  ipv4: `${BYTE} "." ${BYTE} "." ${BYTE} "." ${BYTE}`,
  ipv6: 'hex{1,4} ( ":" hex{1,4} ){7}',
  uuid: 'hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}',
  uri: '[a-z] [a-z0-9+.-]{1,15} ":" [!#-;=?-Z_a-z~]+',
};
