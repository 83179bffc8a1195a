import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { spawnOptionsFor } from './account.ts'
import type { Cluster } from './cluster.ts'
import { findFreePort } from './free-port.ts'
import { commandLineOf, findProcess, isAlive, type ProcessMark } from './process-mark.ts'
import { boundServerLog, openServerLog, readServerLog } from './server-log.ts'
import { postmasterSettings } from './settings.ts'
import { trySignIn, urlFor } from './sign-in.ts'
import { makeSocketFolder, socketFolderOf } from './socket-folder.ts'

/** The PostgreSQL process that serves a cluster; everyone who uses the data dir shares it. */
export type Postmaster = {
  readonly process: ProcessMark
  readonly port: number
  /** A socket saves a seventh of a small statement. Null where the data dir's path or file system allows none. */
  readonly socketFolder: string | null
}

export type StartOptions = {
  readonly settings: Readonly<Record<string, string>>
  /** Where it was served last: tried first, and kept to when `mustKeepPort`, because others are connected there. */
  readonly port: number | null
  readonly mustKeepPort: boolean
  /** Called once, before the first try to start it; not at all when one runs already. */
  readonly onStart?: () => void
}

/**
 * Joins the cluster's postmaster if one runs, also one whose starter died, else starts it. Call it under the data
 * dir's lock.
 */
export async function ensurePostmaster(cluster: Cluster, options: StartOptions): Promise<Postmaster> {
  let port = options.port ?? (await findFreePort())
  let announce = options.onStart
  let socketFolder = socketFolderOf(cluster.pgdata)
  const giveUpAt = Date.now() + patienceMs
  for (;;) {
    const running = await findPostmaster(cluster.pgdata)
    const joined = running && (await awaitReady(cluster, running))
    if (joined) return joined

    announce?.()
    announce = undefined
    const started = await startPostmaster(cluster, { port, socketFolder, settings: options.settings })
    if (!('complaint' in started)) return started

    if (socketFolder !== null && /Unix(-domain)? (address|socket)/.test(started.complaint)) {
      socketFolder = null
      continue
    }
    const portTaken = /could not bind|could not create any TCP\/IP sockets/.test(started.complaint)
    if (portTaken && !options.mustKeepPort) port = await findFreePort()
    else if (!(portTaken || leftByDeadPostmaster.test(started.complaint))) throw new Error(started.complaint)
    if (Date.now() > giveUpAt) throw new Error(started.complaint)
    await delay(100)
  }
}

/**
 * Fast shutdown: sessions end, everything is written, no recovery at the next start. One that does not come to an
 * end is cut off; PostgreSQL then recovers at the next start and loses nothing.
 */
export async function stopPostmaster(pgdata: string): Promise<void> {
  const running = await findPostmaster(pgdata)
  if (!running) return
  for (const [signal, waitMs] of [['SIGINT', 60_000] as const, ['SIGQUIT', 15_000] as const]) {
    signalProcess(running.pid, signal)
    const deadline = Date.now() + waitMs
    while (Date.now() < deadline) {
      if (!(await isAlive(running))) return
      await delay(10)
    }
  }
  throw new Error(`PostgreSQL (process ${running.pid}) does not stop: look at what holds it up, and end it.`)
}

/** How long a start is tried again. Sessions of a killed postmaster hold its memory for a second or two. */
const patienceMs = 10_000
const leftByDeadPostmaster = /lock file "postmaster\.pid" already exists|pre-existing shared memory block/

/** Recovery after a crash takes as long as it takes; beyond this a person should look. */
const readyWithinMs = 300_000

/** The postmaster of a cluster, once it is ready; null where none runs. Starts nothing and changes nothing. */
export async function joinPostmaster(cluster: Served): Promise<Postmaster | null> {
  const seen = await seePostmaster(cluster.pgdata)
  return seen === null || seen === 'stale' ? null : awaitReady(cluster, seen)
}

/**
 * The process that `postmaster.pid` names, if it is this cluster's postmaster. After a reboot or in a new container
 * the pid may belong to anyone, and PostgreSQL would refuse to start beside it: such a file is removed. Should
 * sessions of the old postmaster still run, PostgreSQL notices by their shared memory, without that file.
 */
export async function findPostmaster(pgdata: string): Promise<ProcessMark | null> {
  const seen = await seePostmaster(pgdata)
  if (seen !== 'stale') return seen
  await rm(join(pgdata, 'postmaster.pid'), { force: true })
  return null
}

async function seePostmaster(pgdata: string): Promise<ProcessMark | 'stale' | null> {
  const file = await readPidFile(pgdata)
  const found = file && (await findProcess(file.pid))
  if (!found) return null
  const command = await commandLineOf(found.pid)
  if (command.includes(`-D ${pgdata} `)) return found
  return command ? 'stale' : null
}

/** As much of a cluster as it takes to use it while it is served. */
type Served = Pick<Cluster, 'dataDir' | 'pgdata' | 'password'>

type PidFile = {
  readonly pid: number
  readonly port: number
  readonly socketFolder: string | null
  readonly status: string
}

async function readPidFile(pgdata: string): Promise<PidFile | null> {
  const text = await readFile(join(pgdata, 'postmaster.pid'), 'utf8').catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return ''
      throw error
    },
  )
  const lines = text.split('\n')
  const pid = Number(lines[0])
  if (!pid) return null
  return { pid, port: Number(lines[3]), socketFolder: lines[4] || null, status: lines[7]?.trim() ?? '' }
}

async function startPostmaster(
  cluster: Cluster,
  { port, socketFolder, settings }: Omit<Postmaster, 'process'> & Pick<StartOptions, 'settings'>,
): Promise<Postmaster | { complaint: string }> {
  if (socketFolder !== null) await makeSocketFolder(cluster, socketFolder)
  await boundServerLog(cluster.dataDir)
  const log = await openServerLog(cluster.dataDir)
  const { size: logged } = await log.stat()
  // A session of its own keeps the terminal's Ctrl-C away, and no pipe ties it to this process's life.
  const child = spawn(
    cluster.binaries.postgres,
    [
      '-D',
      cluster.pgdata,
      '-p',
      String(port),
      ...postmasterSettings({ ...(socketFolder !== null && socketIn(socketFolder)), ...settings }),
    ],
    { ...spawnOptionsFor(cluster.account), detached: true, stdio: ['ignore', log.fd, log.fd] },
  )
  try {
    if (child.pid === undefined) throw (await once(child, 'error'))[0]
  } finally {
    await log.close()
  }
  child.unref()
  const found = await findProcess(child.pid)
  const ready = found && (await awaitReady(cluster, found))
  return ready ?? { complaint: complaintIn(cluster.dataDir, await readServerLog(cluster.dataDir, logged)) }
}

/** The setting is a list; quoted, a folder whose name has a comma is one of it. */
function socketIn(folder: string): Record<string, string> {
  return { unix_socket_directories: `"${folder.replaceAll('"', '""')}"` }
}

/** Waits until the postmaster serves and takes our password. Null when it ended instead. */
async function awaitReady(cluster: Served, process: ProcessMark): Promise<Postmaster | null> {
  const deadline = Date.now() + readyWithinMs
  while (await isAlive(process)) {
    const file = await readPidFile(cluster.pgdata)
    if (file?.pid === process.pid && file.status === 'ready') {
      const answer = await trySignIn(urlFor(file.port, cluster.password, null))
      if (answer === 'welcome')
        return { process, port: file.port, socketFolder: await findSocket(cluster, file) }
      if (answer === 'refused') throw new Error(refusedSentence(cluster, process.pid))
    }
    if (Date.now() > deadline) {
      throw new Error(
        `PostgreSQL (process ${process.pid}) is not ready after ${readyWithinMs / 60_000} minutes: ` +
          `${cluster.dataDir}/postgres.log tells what it does; start again to wait on.`,
      )
    }
    await delay(10)
  }
  return null
}

/** One that nobody can come through, as on a file system that a container shares with its host, is not used. */
async function findSocket(cluster: Served, { port, socketFolder }: PidFile): Promise<string | null> {
  if (socketFolder === null) return null
  const answer = await trySignIn(urlFor(port, cluster.password, socketFolder))
  return answer === 'welcome' ? socketFolder : null
}

function refusedSentence(cluster: Served, pid: number): string {
  return (
    `The PostgreSQL that serves ${cluster.pgdata} (process ${pid}) does not take the password in ` +
    `${cluster.dataDir}/postgres.json: put the right file back, or set DATABASE_URL.`
  )
}

/** At a start the log holds no statement and no value yet, so its last complaint may be shown. */
function complaintIn(dataDir: string, log: string): string {
  const lines = log
    .split('\n')
    .flatMap((line) => /(?:LOG|FATAL|PANIC): +(.*)|(postgres: .*)/.exec(line)?.[0] ?? [])
  const binding = lines.find((line) => line.includes('could not bind'))
  const reason =
    binding ?? lines.findLast((line) => !line.startsWith('LOG')) ?? lines.at(-1) ?? 'it left no word'
  return (
    `PostgreSQL did not start (${reason}): remove the cause and start again, or set DATABASE_URL; ` +
    `the whole log is ${dataDir}/postgres.log.`
  )
}

function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
