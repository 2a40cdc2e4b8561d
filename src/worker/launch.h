// From a fresh process to a sandboxed worker: open what the worker may see, shut the door, exec.
//
// Files are opened before the user changes, so a tenant's user need not be able to walk the path to them; the model is opened beneath its tenant's
// root when one is given. The supervisor learns over fd 3 what the machine lacks, or why there will be no worker. Thread rule: the only thread.
#pragma once

namespace coterie::worker {

int launch();  // returns only on failure

}  // namespace coterie::worker
