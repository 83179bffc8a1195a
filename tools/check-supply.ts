import { advisoryFaults, licenceFaults, secretFaults } from './supply.ts'

/**
 * What we bring along and what we must not: every dependency's licence is permissive, no dependency has a known
 * advisory (where the registry answers that question), and nothing that looks like a secret is committed.
 */
const faults = [...licenceFaults(), ...advisoryFaults(), ...secretFaults()]
for (const fault of faults) process.stderr.write(`${fault}\n`)
if (faults.length > 0) process.exitCode = 1
else process.stdout.write('Licences and secrets: nothing to say.\n')
