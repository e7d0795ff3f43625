import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { mkdir, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { until } from '../../kit/until.js'

/** Sparse: what is never written takes no room. */
const BYTES = 192 * 2 ** 20
/** ext4 stops where it is and writes nothing any more: FS_IOC_SHUTDOWN with "do not flush the journal". */
const CUT = 'open my $d, "<", $ARGV[0] or die "$!\\n"; my $how = pack "L", 2; ioctl $d, 0x8004587D, $how or die "$!\\n"'

/**
 * An ext4 in a file, whose power can be cut. After a cut it holds what it had given to its disk at one moment: what
 * only the memory of the machine held is gone, and the journal has to be replayed.
 */
export interface DiskImage {
  /** Where it is mounted. */
  readonly folder: string
  /** At once; every later call to the system on it fails with EIO. Blocks. */
  cut(): void
  /** Takes it away from under nobody, and mounts it again. Waits for processes that still hold it. */
  mountAgain(): Promise<void>
  /** What is in memory goes to the disk. */
  sync(): void
  remove(): Promise<void>
}

/** @param folder to be made. @throws Error when loop devices may not be used here */
export async function makeDiskImage(file: string, folder: string): Promise<DiskImage> {
  await writeFile(file, '')
  await truncate(file, BYTES)
  await mkdir(folder)
  must('mkfs.ext4', '-q', '-J', 'size=4', file)
  const device = must('losetup', '--find', '--show', file).trim()
  try {
    must('mount', device, folder)
  } catch (error) {
    must('losetup', '--detach', device)
    throw error
  }
  const unmount = () => until(`${folder} is free`, () => tried('umount', folder))
  return {
    folder,
    cut: () => void must('perl', '-e', CUT, folder),
    sync: () => void must('sync', '--file-system', folder),
    async mountAgain() {
      await until(`${folder} works again`, async () => {
        await unmount()
        must('mount', device, folder)
        // A mount namespace of another program may still have it as it was cut.
        return works(folder)
      })
    },
    async remove() {
      await unmount()
      must('losetup', '--detach', device)
      await rm(file)
      await rm(folder, { recursive: true })
    },
  }
}

function must(command: string, ...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8' })
  if (status === 0) return stdout
  throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr.trim()}`)
}

const works = (folder: string): boolean => {
  try {
    writeFileSync(join(folder, 'works'), '')
    return true
  } catch {
    return false
  }
}

const tried = (command: string, ...args: string[]): boolean => spawnSync(command, args).status === 0
