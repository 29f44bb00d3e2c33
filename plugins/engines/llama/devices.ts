/**
 * Owns the devices that evaluate besides the processor, and the plan of what goes into their memory.
 * It must never plan more than a device has free: a context that does not fit there ends the process.
 */
import type { EngineDevice } from 'preface/plugin';
import { library } from './libllama.js';

const CPU = 0;
/** A device's driver, and what it computes with, take their part. */
const USABLE = 0.9;
/** Of it the weights may take so much; the rest is for contexts. */
const WEIGHTS_SHARE = 0.8;

export function devices(): EngineDevice[] {
  const { deviceCount, deviceAt, deviceName, deviceText, deviceKind, deviceMemory } = library();
  return Array.from({ length: Number(deviceCount()) }, (_, at) => {
    const device = deviceAt(at);
    const [free, total] = [[0], [0]];
    deviceMemory(device, free, total);
    const isProcessor = deviceKind(device) === CPU;
    const memory = { freeBytes: Number(free[0]), totalBytes: Number(total[0]) };
    return { name: deviceName(device), text: deviceText(device), isProcessor, ...memory };
  });
}

export interface DevicePlan {
  /** Layers on the device; -1: all. */
  readonly layers: number;
  /** For all contexts. */
  readonly contextBytesMax: number;
}

/** null without a device besides the processor: then only the machine's memory counts. */
export function devicePlan(
  found: readonly EngineDevice[],
  weightsBytes: number,
  layers: number,
): DevicePlan | null {
  const others = found.filter(({ isProcessor }) => !isProcessor);
  if (others.length === 0) return null;
  const room = USABLE * others.reduce((sum, { freeBytes }) => sum + freeBytes, 0);
  const forWeights = WEIGHTS_SHARE * room;
  if (weightsBytes <= forWeights) return { layers: -1, contextBytesMax: room - weightsBytes };
  const some = Math.floor((layers * forWeights) / weightsBytes);
  return { layers: some, contextBytesMax: room - forWeights };
}
