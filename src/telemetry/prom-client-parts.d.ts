/**
 * Owns the types of the parts of `prom-client` that are loaded without the rest of it.
 * It must never say anything else of them than the package does.
 */
declare module 'prom-client/lib/counter.js' {
  export { Counter as default } from 'prom-client';
}

declare module 'prom-client/lib/gauge.js' {
  export { Gauge as default } from 'prom-client';
}

declare module 'prom-client/lib/registry.js' {
  export { Registry as default } from 'prom-client';
}
