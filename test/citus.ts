import pg from 'pg'
import { distribute } from '../src/batch/distribution/distribute.ts'
import { migrate } from '../src/platform/database/migrate.ts'
import { migrateQueue } from '../src/platform/queue/queue.ts'

/** The nodes of a cluster, the coordinator first. A database of a cluster is one of the same name on each of them. */
export async function listNodes(citusUrl: string): Promise<string[]> {
  return onNode(citusUrl, async (client) => {
    const { rows } = await client.query<{ host: string; port: number }>(
      `select nodename as host, nodeport as port from pg_dist_node where isactive order by groupid`,
    )
    return rows.map(({ host, port }) => {
      const url = new URL(citusUrl)
      url.hostname = host
      url.port = String(port)
      return url.toString()
    })
  })
}

/** An empty database of the cluster, on all its nodes; the first of them know each other and take part. */
export async function createClusterDatabase(
  nodes: readonly string[],
  name: string,
  taking = nodes.length,
): Promise<string> {
  for (const node of nodes) {
    await onNode(node, (client) => client.query(`create database ${name}`))
    await onNode(inDatabase(node, name), (client) => client.query('create extension citus'))
  }
  const [coordinator, ...workers] = nodes.slice(0, taking).map((node) => new URL(node))
  await onNode(inDatabase(nodes[0]!, name), async (client) => {
    await client.query('select citus_set_coordinator_host($1, $2)', [
      coordinator!.hostname,
      coordinator!.port,
    ])
    for (const { hostname, port } of workers)
      await client.query('select citus_add_node($1, $2)', [hostname, port])
  })
  return inDatabase(nodes[0]!, name)
}

/** A migrated and distributed database that nobody connects to any more, so that every node can copy its part of it. */
export async function makeClusterTemplate(nodes: readonly string[], name: string): Promise<void> {
  await dropOnNodes(nodes, name)
  const url = await createClusterDatabase(nodes, name)
  await migrate(url)
  await migrateQueue(url)
  // Few shards show all that many do, and are made and copied faster.
  await distribute(url, { workspaceShards: 4, volumeShards: 2 })
  for (const node of nodes) {
    await onNode(node, async (client) => {
      await client.query(`alter database ${name} allow_connections false`)
      await endSessions(client, name)
    })
  }
}

/** Copies the template on every node; the parts know each other by the name they share. */
export async function copyOnNodes(nodes: readonly string[], template: string, name: string): Promise<void> {
  await Promise.all(
    nodes.map((node) =>
      onNode(node, (client) => client.query(`create database ${name} template ${template}`)),
    ),
  )
}

export async function dropOnNodes(nodes: readonly string[], name: string): Promise<void> {
  // The coordinator first: its sessions hold those on the workers.
  for (const node of nodes) {
    await onNode(node, async (client) => {
      await client.query(`drop database if exists ${name} with (force)`)
    })
  }
}

/** Each database with the extension keeps a session of its own, which comes back unless nobody may connect. */
async function endSessions(client: pg.Client, name: string): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const { rowCount } = await client.query(
      'select pg_terminate_backend(pid, 1000) from pg_stat_activity where datname = $1',
      [name],
    )
    if (rowCount === 0) return
  }
  throw new Error(`Somebody stays connected to ${name}.`)
}

function inDatabase(url: string, name: string): string {
  const named = new URL(url)
  named.pathname = `/${name}`
  return named.toString()
}

async function onNode<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
