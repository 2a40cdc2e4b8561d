"""Follows the thread hint of `coterie agent` in a server on ONNX Runtime: `HintedSession("model.onnx", path).run(...)` instead of InferenceSession's.

ONNX Runtime fixes the number of threads when a session is made, so a change makes a second one beside the first and then takes its place; what runs
meanwhile ends on the old one. Without a hint file the server runs as many threads as it may run on CPUs.
"""
import json
import os
import signal
import threading

import onnxruntime


class HintedSession:
    def __init__(self, model, hint_path):
        self._model, self._path, self._asked = model, hint_path.format(pid=os.getpid(), container=os.getpid()), threading.Event()
        self.threads, self._session = 0, None
        signal.signal(signal.SIGUSR1, lambda *_: self._asked.set())  # the agent sends it when the file has changed
        self._follow()
        threading.Thread(target=self._watch, daemon=True).start()

    def _follow(self):
        try:
            with open(self._path) as file:
                threads = json.load(file)["threads"]
        except (OSError, ValueError, KeyError):
            threads = len(os.sched_getaffinity(0))
        if threads != self.threads:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            self._session, self.threads = onnxruntime.InferenceSession(self._model, options, providers=["CPUExecutionProvider"]), threads

    def _watch(self):
        while True:
            self._asked.wait(timeout=1)  # also without the signal
            self._asked.clear()
            self._follow()

    def run(self, outputs, inputs):
        return self._session.run(outputs, inputs)
