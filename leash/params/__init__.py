"""The only reader of `params.yaml`: typed, checked, and clear about what is wrong.

    loading.load(Path("params.yaml")).k("rlvr", "chain")  ->  1024

`groups` has the types and defaults, `checks` and `security` the rules that no single field can check, `loading` reads
the file, and `errors` has one class per kind of mistake.
"""
