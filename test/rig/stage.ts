/**
 * What most stories of the whole engine play on: a database and a Redis that nobody else uses, and a sink
 * that takes the mail. A stage is handed to engines, processes and command lines as it is.
 */
import { type OwnRedis, ownDatabase, ownRedis } from "./services.ts";
import { openSink, type Sink, type SinkOptions } from "./sink.ts";

export type Stage = {
  databaseUrl: string;
  redisUrl: string;
  smtpUrl: string;
  redis: OwnRedis;
  sink: Sink;
  /** After everything that was started on it has stopped. */
  close(): Promise<void>;
};

export async function openStage(options: SinkOptions = {}): Promise<Stage> {
  const [database, redis, sink] = await Promise.all([ownDatabase(), ownRedis(), openSink(options)]);
  return {
    databaseUrl: database.url,
    redisUrl: redis.url,
    smtpUrl: sink.url,
    redis,
    sink,
    async close() {
      await Promise.all([sink.close(), redis.stop(), database.drop()]);
    },
  };
}
