/**
 * Owns the document of `preface demo`, and questions that it answers.
 * It must never be taken from elsewhere: nobody's rights are in it.
 */

const KEEPERS = ['Ada', 'Bruno', 'Clara', 'Deniz', 'Emil', 'Farah', 'Goran', 'Hanna'];
const GOODS = ['salt', 'timber', 'glass', 'wool', 'oranges', 'paper', 'copper', 'tea'];
const BERTHS = 24;

/** About 1 500 tokens. */
export function demoDocument(): string {
  const berths = Array.from({ length: BERTHS }, (_, at) => {
    const keeper = KEEPERS[at % KEEPERS.length];
    const goods = GOODS[(at * 3) % GOODS.length];
    const depth = 4 + ((at * 7) % 9);
    return `Berth ${at + 1} is ${depth} metres deep. ${keeper} keeps it and holds key ${at * 7 + 3}. Ships unload ${goods} there, at most ${20 + at * 5} tonnes a day.`;
  });
  return `Handbook of the harbour

The harbour opens at six in the morning and closes at nine in the evening. On feast days it opens at eight.
A ship that wants to enter shows a blue flag. The harbour master answers with a white light.
The lighthouse is kept by Ines. Its lamp is lit one hour before sunset, and in fog at any time.
The ferry to the island leaves from berth 3 every two hours, the first at seven. A ticket costs four coins.

${berths.join('\n')}

Fire is reported by three blasts of a horn. The pump stands beside the customs house, and its key hangs in room 2.
Lost things are kept for a year in the tower. Nobody may fish from the long pier while a ship is moving.
`;
}

export const demoQuestions: readonly string[] = [
  'When does the harbour open?',
  'Who keeps the lighthouse?',
  'How deep is berth 5?',
  'What does a ferry ticket cost?',
  'How is fire reported?',
];
