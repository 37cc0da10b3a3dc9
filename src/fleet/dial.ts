import {
  type ConnectionOptions,
  type NatsConnection,
  NatsConnectionImpl,
  setTransportFactory,
} from "@nats-io/transport-node";
import { NodeTransport, nodeResolveHost } from "@nats-io/transport-node/lib/node_transport.js";

/**
 * Closes its socket when a dial has no answer in time. The client leaves the socket open, and a server that accepts and says
 * nothing would cost a descriptor for each dial.
 */
class ClosingTransport extends NodeTransport {
  override async close(error?: Error): Promise<void> {
    if (this.connected) return super.close(error);
    this.discard();
  }
}

/** Connects to the messaging server. @throws Error when it refuses, or does not answer in time */
export function dialServer(options: ConnectionOptions): Promise<NatsConnection> {
  setTransportFactory({ factory: () => new ClosingTransport(), dnsResolveFn: nodeResolveHost });
  return NatsConnectionImpl.connect(options);
}
