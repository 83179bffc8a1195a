export function groupBy<T>(list: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of list) {
    const name = key(item)
    const group = groups.get(name)
    if (group) group.push(item)
    else groups.set(name, [item])
  }
  return groups
}

export function sum<T>(list: readonly T[], amount: (item: T) => bigint): bigint {
  return list.reduce((total, item) => total + amount(item), 0n)
}
