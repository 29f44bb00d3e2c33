import t from 'tap';
import { openRecognizer } from '../../../plugins/extractors/ocr/recognizer.js';
import { hasRelaxedSimd } from '../../../plugins/extractors/ocr/relaxed-simd.js';

t.setTimeout(300_000);

t.test('recognition may use the build of its library that takes the fewest steps', async (t) => {
  const recognizer = openRecognizer({ languages: ['eng'] });
  t.teardown(() => recognizer.close());
  // Half white, half black: no text, and no empty page.
  const pixels = new Uint8Array(64 * 64).fill(255, 0, 32 * 64);
  await recognizer.recognize({ width: 64, height: 64, pixels }, false);
  t.ok(hasRelaxedSimd(), 'the library asks the same question in the same process');
});
