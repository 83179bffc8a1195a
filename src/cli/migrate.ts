import { loadConfig } from '../config.ts'
import { migrateDatabase, openDatabase } from '../database.ts'
import { openLog } from '../service-log.ts'
import { type Command, parseOnlyFlags, print, printJson } from './command.ts'

export const migrate: Command = {
  summary: 'Bring the database to this release',
  usage: `rankledger migrate [--json]

\`serve\` and \`work\` do this themselves; run it first where only one role may change the schema.`,

  async run(args) {
    const { values } = parseOnlyFlags(args, { json: { type: 'boolean', default: false } })
    const config = loadConfig()
    const database = await openDatabase(config, openLog(config, 'stderr'))
    try {
      const { applied, present } = await migrateDatabase(config, database)
      if (values.json) printJson({ applied, present })
      else if (applied.length === 0) print(`Nothing to do: all ${present} migrations are there.`)
      else for (const name of applied) print(`Applied ${name}`)
      return 0
    } finally {
      await database.close()
    }
  },
}
