import { openEmbeddedPostgres } from '../../src/platform/embedded-postgres/embedded-postgres.ts'

/** A process that uses the database of a data dir until its input ends, and says where it found it or why it did not. */
const [dataDir] = process.argv.slice(2)
try {
  const database = await openEmbeddedPostgres({ dataDir: dataDir! })
  console.log(JSON.stringify({ url: database.url }))
  process.stdin.resume().on('end', () => database.close())
} catch (error) {
  console.log(JSON.stringify({ failure: (error as Error).message }))
}
