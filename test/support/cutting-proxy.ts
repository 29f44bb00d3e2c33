/**
 * Owns a connection between a client and its server that is cut at a moment that a test names.
 * It must never change what it carries.
 */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

export interface Cut {
  readonly text: string;
  /** What the connection does not carry any more: the request with that text, or its answer. */
  readonly before: 'request' | 'answer';
}

export class CuttingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Of the next request with its text. */
  cut: Cut | null = null;
  /** New connections are cut at once. */
  refuses = false;

  constructor(port: number) {
    this.#server = createServer((near) => {
      if (this.refuses) return void near.destroy();
      const far = connect(port, '127.0.0.1');
      for (const socket of [near, far]) this.#watch(socket);
      let isSwallowing = false;
      near.on('data', (bytes) => {
        const { cut } = this;
        if (cut === null || !bytes.includes(cut.text)) return void far.write(bytes);
        this.cut = null;
        if (cut.before === 'request') return void near.destroy();
        isSwallowing = true;
        far.write(bytes);
      });
      far.on('data', (bytes) => {
        if (isSwallowing) near.destroy();
        else near.write(bytes);
      });
      near.on('close', () => far.end());
      far.on('close', () => near.end());
    });
  }

  #watch(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
  }

  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
