/**
 * Owns the list of system calls that a reader of documents is refused, as a program for the kernel's filter (seccomp).
 * It must never refuse what Node needs to run threads, files and the pipes that it has been given.
 */

/** Numbers of calls: x64, arm64; null where the machine has none. */
const refused: Readonly<Record<string, readonly [number, number | null]>> = {
  // Connections. The pipes of a reader are open before the filter is.
  socket: [41, 198],
  connect: [42, 203],
  accept: [43, 202],
  sendto: [44, 206],
  bind: [49, 200],
  listen: [50, 201],
  accept4: [288, 242],
  sendmmsg: [307, 269],
  // Programs. `execve` stays: the reader itself is started by it, and without another process it can only end there.
  fork: [57, null],
  vfork: [58, null],
  execveat: [322, 281],
  // Other processes.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  kcmp: [312, 272],
  pidfd_open: [434, 434],
  pidfd_getfd: [438, 438],
  // Mounts and namespaces.
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  unshare: [272, 97],
  setns: [308, 268],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  // Parts of the kernel that Node does without, and that faults of the kernel were often in.
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  kexec_load: [246, 104],
  swapon: [167, 224],
  reboot: [169, 142],
  acct: [163, 89],
  quotactl: [179, 60],
  syslog: [103, 116],
};

interface Machine {
  readonly column: 0 | 1;
  /** `AUDIT_ARCH_…` of the kernel. */
  readonly audit: number;
  readonly clone: number;
}

const machines: Readonly<Record<string, Machine>> = {
  x64: { column: 0, audit: 0xc000003e, clone: 56 },
  arm64: { column: 1, audit: 0xc00000b7, clone: 220 },
};

const CLONE3 = 435;
const CLONE_THREAD = 0x10000;
/** Numbers from here on are the calls of a second, old convention of x64. */
const X32 = 0x40000000;
const [EPERM, ENOSYS] = [1, 38];

/** Classic BPF: load a word, jump, return. */
const [LOAD, JUMP_EQUAL, JUMP_FROM, JUMP_SET, RETURN] = [0x20, 0x15, 0x35, 0x45, 0x06];
const [ALLOW, ERRNO, KILL] = [0x7fff0000, 0x00050000, 0x80000000];
/** Where the number, the machine and the lower half of the first argument stand. */
const [NUMBER, AUDIT, ARGUMENT] = [0, 4, 16];

type Step = readonly [code: number, value: number, whenTrue?: number, whenFalse?: number];

/** @returns the program; null on a machine whose numbers are not in the list. */
export function callFilter(arch: string = process.arch): Uint8Array | null {
  const machine = machines[arch];
  return machine === undefined ? null : bytesOf(stepsFor(machine));
}

function stepsFor({ column, audit, clone }: Machine): Step[] {
  const numbers = Object.values(refused).flatMap((pair) => pair[column] ?? []);
  const refuse: Step = [RETURN, ERRNO | EPERM];
  return [
    [LOAD, AUDIT],
    [JUMP_EQUAL, audit, 1],
    [RETURN, KILL],
    [LOAD, NUMBER],
    [JUMP_FROM, X32, 0, 1],
    refuse,
    // Its flags lie in memory, where no filter sees them; without it the C library uses `clone`.
    [JUMP_EQUAL, CLONE3, 0, 1],
    [RETURN, ERRNO | ENOSYS],
    ...numbers.flatMap((number): Step[] => [[JUMP_EQUAL, number, 0, 1], refuse]),
    [JUMP_EQUAL, clone, 0, 3],
    [LOAD, ARGUMENT],
    [JUMP_SET, CLONE_THREAD, 1],
    refuse,
    [RETURN, ALLOW],
  ];
}

function bytesOf(steps: readonly Step[]): Uint8Array {
  const bytes = Buffer.alloc(steps.length * 8);
  steps.forEach(([code, value, whenTrue = 0, whenFalse = 0], at) => {
    bytes.writeUInt16LE(code, at * 8);
    bytes.writeUInt8(whenTrue, at * 8 + 2);
    bytes.writeUInt8(whenFalse, at * 8 + 3);
    bytes.writeUInt32LE(value >>> 0, at * 8 + 4);
  });
  return bytes;
}
