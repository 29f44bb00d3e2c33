/**
 * Owns what `preface/plugin/test` gives to the author of a plugin: one suite for each contract.
 * It must never export what only the tests of this project use.
 */
export { type EngineSubject, engineSuite } from './engine.js';
export { snapshotSuite } from './engine-snapshots.js';
export { type ExtractorTrial, extractorSuite, type GoodDocument } from './extractor.js';
export { type FilterTrial, filterSuite } from './filter.js';
export { type SuiteTest, underNode } from './suite-test.js';
export { type TokenizerTrial, tokenizerSuite } from './tokenizer.js';
export { type VectorSubject, vectorSuite } from './vectors.js';
