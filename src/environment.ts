/**
 * Owns which variables of the environment a child process gets, by kind of child.
 * It must never let a key of the service pass, whatever its name begins with.
 */

export type Environment = Readonly<Record<string, string | undefined>>;

const SYSTEM = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LANGUAGE', 'TZ', 'TMPDIR'];
const WINDOWS = ['SystemRoot', 'windir', 'ComSpec', 'PATHEXT', 'TEMP', 'TMP', 'USERPROFILE'];
const CERTIFICATES = ['SSL_CERT_FILE', 'SSL_CERT_DIR', 'NODE_EXTRA_CA_CERTS'];
const LOADER = ['LD_LIBRARY_PATH', 'LD_PRELOAD', 'DYLD_LIBRARY_PATH', 'UV_THREADPOOL_SIZE'];
const PROXIES = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY'];

interface Allowed {
  readonly names: ReadonlySet<string>;
  readonly beginnings: readonly string[];
}

const common = [...SYSTEM, ...WINDOWS, ...CERTIFICATES];

/** Engines: what their native libraries and graphics drivers read. */
const engine: Allowed = {
  names: new Set([...common, ...LOADER, 'NODE_ENV', 'NODE_OPTIONS', 'XDG_CACHE_HOME']),
  beginnings: [
    'LC_',
    ...['OMP_', 'GOMP_', 'KMP_', 'MKL_', 'OPENBLAS_', 'MALLOC_', 'GGML_', 'LLAMA_'],
    ...[
      'CUDA_',
      'NVIDIA_',
      'NCCL_',
      'HIP_',
      'HSA_',
      'ROCR_',
      'ROCM_',
      'VK_',
      'MESA_',
      'SYCL_',
      'ZE_',
    ],
  ],
};

/** pip: which index it asks, through which proxy. */
const pip: Allowed = {
  names: new Set([...common, ...PROXIES, ...PROXIES.map((name) => name.toLowerCase())]),
  beginnings: ['LC_', 'PIP_', 'PYTHON', 'PYENV_', 'VIRTUAL_ENV', 'XDG_', 'REQUESTS_', 'CURL_CA_'],
};

/** Some drivers' beginnings are also those of accounts with their makers: `NVIDIA_API_KEY`. */
/** The address of the store holds a password. */
const SECRET = /KEY|TOKEN|SECRET|PASSW|CREDENTIAL|^PREFACE_STORE$/i;

export const isSecretName = (name: string) => SECRET.test(name);

export const engineEnvironment = (own: Environment) => allowed(own, engine);
export const pipEnvironment = (own: Environment) => allowed(own, pip);

function allowed(own: Environment, { names, beginnings }: Allowed): Record<string, string> {
  const passes = (name: string) =>
    names.has(name) ||
    (beginnings.some((beginning) => name.startsWith(beginning)) && !isSecretName(name));
  const found = Object.entries(own).filter(([name, value]) => value !== undefined && passes(name));
  return Object.fromEntries(found) as Record<string, string>;
}
