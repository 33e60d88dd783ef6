"""The LLVM text of the native functions behind builtins; `calls` fills in what stands between dollar signs."""

CALL_TEMPLATE = """
; Whether an object is exactly of a type, not of a subclass, so that reading it runs no user code.
define internal i1 @is_exactly(ptr %object, ptr %type) alwaysinline {
  %at = getelementptr i8, ptr %object, i64 $at.type$
  %found = load ptr, ptr %at
  %same = icmp eq ptr %found, %type
  ret i1 %same
}

; Count a call; returns whether the limit of calls is exceeded.
define internal i1 @count(ptr %fields) alwaysinline {
  %calls.at = getelementptr i8, ptr %fields, i64 $field.calls$
  %limit.at = getelementptr i8, ptr %fields, i64 $field.limit$
  %before = load i64, ptr %calls.at
  %calls = add i64 %before, 1
  store i64 %calls, ptr %calls.at
  %limit = load i64, ptr %limit.at
  %due = icmp sgt i64 %calls, %limit
  ret i1 %due
}

define internal i1 @take(ptr %object, ptr %slot) alwaysinline {
  %exact = call i1 @is_exactly(ptr %object, ptr $type.float$)
  br i1 %exact, label %yes, label %no
yes:
  %double = call double $PyFloat_AsDouble$(ptr %object)
  %rounded = $round$
  store $real$ %rounded, ptr %slot
  ret i1 true
no:
  ret i1 false
}

define internal i1 @take_items(ptr %sequence, ptr %getter, ptr %w, i64 %n) {
start:
  br label %next
next:
  %k = phi i64 [0, %start], [%following, %taken]
  %done = icmp eq i64 %k, %n
  br i1 %done, label %all, label %item
item:
  %object = call ptr %getter(ptr %sequence, i64 %k)
  %slot = getelementptr $real$, ptr %w, i64 %k
  %ok = call i1 @take(ptr %object, ptr %slot)
  br i1 %ok, label %taken, label %other
taken:
  %following = add i64 %k, 1
  br label %next
all:
  ret i1 true
other:
  ret i1 false
}

define internal i1 @take_array(ptr %array, ptr %w, i64 %n) {
  %nd.at = getelementptr i8, ptr %array, i64 $at.nd$
  %flags.at = getelementptr i8, ptr %array, i64 $at.flags$
  %descr.at = getelementptr i8, ptr %array, i64 $at.descr$
  %nd = load i32, ptr %nd.at
  %all.flags = load i32, ptr %flags.at
  %descr = load ptr, ptr %descr.at
  %flat = icmp eq i32 %nd, 1
  %flags = and i32 %all.flags, $flags$
  %plain = icmp eq i32 %flags, $flags$
  %fitting = icmp eq ptr %descr, $descr$
  %so = and i1 %flat, %plain
  %such = and i1 %so, %fitting
  br i1 %such, label %sized, label %other
sized:
  %dimensions.at = getelementptr i8, ptr %array, i64 $at.dimensions$
  %dimensions = load ptr, ptr %dimensions.at
  %length = load i64, ptr %dimensions
  %right = icmp eq i64 %length, %n
  br i1 %right, label %copy, label %other
copy:
  %data.at = getelementptr i8, ptr %array, i64 $at.data$
  %data = load ptr, ptr %data.at
  %bytes = mul i64 %n, $size$
  call void @llvm.memcpy.p0.p0.i64(ptr %w, ptr %data, i64 %bytes, i1 false)
  ret i1 true
other:
  ret i1 false
}

define internal i1 @take_vector(ptr %x, ptr %w, i64 %n) {
  %is.array = call i1 @is_exactly(ptr %x, ptr $type.ndarray$)
  br i1 %is.array, label %array, label %not.array
array:
  %copied = call i1 @take_array(ptr %x, ptr %w, i64 %n)
  ret i1 %copied
not.array:
  %is.list = call i1 @is_exactly(ptr %x, ptr $type.list$)
  br i1 %is.list, label %list, label %not.list
list:
  %list.length = call i64 $PyList_Size$(ptr %x)
  %list.right = icmp eq i64 %list.length, %n
  br i1 %list.right, label %items, label %other
not.list:
  %is.tuple = call i1 @is_exactly(ptr %x, ptr $type.tuple$)
  br i1 %is.tuple, label %tuple, label %other
tuple:
  %tuple.length = call i64 $PyTuple_Size$(ptr %x)
  %tuple.right = icmp eq i64 %tuple.length, %n
  br i1 %tuple.right, label %items, label %other
items:
  %getter = phi ptr [$PyList_GetItem$, %list], [$PyTuple_GetItem$, %tuple]
  %taken = call i1 @take_items(ptr %x, ptr %getter, ptr %w, i64 %n)
  ret i1 %taken
other:
  ret i1 false
}

; Take the inputs by name: exactly these names, in order. Names in source code are interned, so pointers mostly match.
define internal i1 @take_named(ptr %args, ptr %given, ptr %names, ptr %w, i64 %n) {
start:
  %length = call i64 $PyTuple_Size$(ptr %given)
  %right = icmp eq i64 %length, %n
  br i1 %right, label %next, label %other
next:
  %k = phi i64 [0, %start], [%following, %taken]
  %done = icmp eq i64 %k, %n
  br i1 %done, label %all, label %name
name:
  %called = call ptr $PyTuple_GetItem$(ptr %given, i64 %k)
  %wanted.at = getelementptr ptr, ptr %names, i64 %k
  %wanted = load ptr, ptr %wanted.at
  %same = icmp eq ptr %called, %wanted
  br i1 %same, label %item, label %spelled
spelled:
  %order = call i32 $PyUnicode_Compare$(ptr %called, ptr %wanted)
  %alike = icmp eq i32 %order, 0
  br i1 %alike, label %item, label %other
item:
  %object.at = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %object.at
  %slot = getelementptr $real$, ptr %w, i64 %k
  %ok = call i1 @take(ptr %object, ptr %slot)
  br i1 %ok, label %taken, label %other
taken:
  %following = add i64 %k, 1
  br label %next
all:
  ret i1 true
other:
  ret i1 false
}

define internal i1 @take_arguments(ptr %fields, ptr %args, i64 %nargs, ptr %given) {
  %w.at = getelementptr i8, ptr %fields, i64 $field.buffer$
  %n.at = getelementptr i8, ptr %fields, i64 $field.inputs$
  %w = load ptr, ptr %w.at
  %n = load i64, ptr %n.at
  %unnamed = icmp eq ptr %given, null
  br i1 %unnamed, label %positional, label %keywords
positional:
  %one = icmp eq i64 %nargs, 1
  br i1 %one, label %vector, label %other
vector:
  %x = load ptr, ptr %args
  %taken = call i1 @take_vector(ptr %x, ptr %w, i64 %n)
  ret i1 %taken
keywords:
  %none = icmp eq i64 %nargs, 0
  br i1 %none, label %named, label %other
named:
  %names.at = getelementptr i8, ptr %fields, i64 $field.names$
  %names = load ptr, ptr %names.at
  %all = call i1 @take_named(ptr %args, ptr %given, ptr %names, ptr %w, i64 %n)
  ret i1 %all
other:
  ret i1 false
}

; Run the code; returns a pointer to the outputs.
define internal ptr @run(ptr %fields) {
  %enter.at = getelementptr i8, ptr %fields, i64 $field.enter$
  %code.at = getelementptr i8, ptr %fields, i64 $field.code$
  %w.at = getelementptr i8, ptr %fields, i64 $field.buffer$
  %n.at = getelementptr i8, ptr %fields, i64 $field.inputs$
  %enter = load ptr, ptr %enter.at
  %code = load ptr, ptr %code.at
  %w = load ptr, ptr %w.at
  call void %enter(ptr %code, ptr %w)
  %n = load i64, ptr %n.at
  %outputs = getelementptr $real$, ptr %w, i64 %n
  ret ptr %outputs
}

; Whether the outputs after the results have the expected bits.
define internal i1 @holds(ptr %fields, ptr %outputs, i64 %results) {
start:
  %count.at = getelementptr i8, ptr %fields, i64 $field.checks$
  %count = load i64, ptr %count.at
  %expected.at = getelementptr i8, ptr %fields, i64 $field.expected$
  %expected = load ptr, ptr %expected.at
  %found = getelementptr $real$, ptr %outputs, i64 %results
  br label %next
next:
  %k = phi i64 [0, %start], [%following, %compare]
  %done = icmp eq i64 %k, %count
  br i1 %done, label %all, label %compare
compare:
  %now.at = getelementptr $bits$, ptr %found, i64 %k
  %was.at = getelementptr $bits$, ptr %expected, i64 %k
  %now = load $bits$, ptr %now.at
  %was = load $bits$, ptr %was.at
  %same = icmp eq $bits$ %now, %was
  %following = add i64 %k, 1
  br i1 %same, label %next, label %other
all:
  ret i1 true
other:
  ret i1 false
}

define internal ptr @number(ptr %slot) alwaysinline {
  %narrow = load $real$, ptr %slot
  %double = $widen$
  %made = call ptr $PyFloat_FromDouble$(double %double)
  ret ptr %made
}

; Store numbers in a dict that already has the keys; false if memory ran out.
define internal i1 @fill(ptr %dict, ptr %keys, ptr %slots, i64 %count) {
start:
  br label %next
next:
  %k = phi i64 [0, %start], [%following, %put]
  %done = icmp eq i64 %k, %count
  br i1 %done, label %all, label %item
item:
  %slot = getelementptr $real$, ptr %slots, i64 %k
  %made = call ptr @number(ptr %slot)
  %none = icmp eq ptr %made, null
  br i1 %none, label %failed, label %known
known:
  %key.at = getelementptr ptr, ptr %keys, i64 %k
  %key = load ptr, ptr %key.at
  %code = call i32 $PyDict_SetItem$(ptr %dict, ptr %key, ptr %made)
  call void $Py_DecRef$(ptr %made)
  %bad = icmp slt i32 %code, 0
  br i1 %bad, label %failed, label %put
put:
  %following = add i64 %k, 1
  br label %next
all:
  ret i1 true
failed:
  ret i1 false
}

; The frame holds two addresses: of the fields, and of the Python callable for all other calls.
define internal ptr @ask_slow(ptr %frame, ptr %args, i64 %nargs, ptr %given) {
  %slow.at = getelementptr i8, ptr %frame, i64 8
  %slow = load ptr, ptr %slow.at, align 1
  %answer = call ptr $PyObject_Vectorcall$(ptr %slow, ptr %args, i64 %nargs, ptr %given)
  ret ptr %answer
}

define ptr @value(ptr %self, ptr %args, i64 %nargs, ptr %given) {
  %frame = call ptr $PyBytes_AsString$(ptr %self)
  %fields = load ptr, ptr %frame, align 1
  %m.at = getelementptr i8, ptr %fields, i64 $field.outputs$
  %m = load i64, ptr %m.at
  %one = icmp eq i64 %m, 1
  %due = call i1 @count(ptr %fields)
  br i1 %due, label %slow, label %quick
quick:
  br i1 %one, label %ready, label %several
several:
  %values.at = getelementptr i8, ptr %fields, i64 $field.values$
  %values = load ptr, ptr %values.at
  %dict = call ptr $PyDict_Copy$(ptr %values)
  %none = icmp eq ptr %dict, null
  br i1 %none, label %failed, label %ready
ready:
  %result = phi ptr [null, %quick], [%dict, %several]
  %taken = call i1 @take_arguments(ptr %fields, ptr %args, i64 %nargs, ptr %given)
  br i1 %taken, label %running, label %unlike
unlike:
  br i1 %one, label %slow, label %drop
drop:
  call void $Py_DecRef$(ptr %result)
  br label %slow
running:
  %outputs = call ptr @run(ptr %fields)
  %held = call i1 @holds(ptr %fields, ptr %outputs, i64 %m)
  br i1 %held, label %answer, label %unlike
answer:
  br i1 %one, label %alone, label %together
alone:
  %y = call ptr @number(ptr %outputs)
  ret ptr %y
together:
  %labels.at = getelementptr i8, ptr %fields, i64 $field.labels$
  %labels = load ptr, ptr %labels.at
  %filled = call i1 @fill(ptr %result, ptr %labels, ptr %outputs, i64 %m)
  br i1 %filled, label %good, label %bad
good:
  ret ptr %result
bad:
  call void $Py_DecRef$(ptr %result)
  br label %failed
slow:
  %told = call ptr @ask_slow(ptr %frame, ptr %args, i64 %nargs, ptr %given)
  ret ptr %told
failed:
  ret ptr null
}

define ptr @value_and_grad(ptr %self, ptr %args, i64 %nargs, ptr %given) {
  %frame = call ptr $PyBytes_AsString$(ptr %self)
  %fields = load ptr, ptr %frame, align 1
  %due = call i1 @count(ptr %fields)
  br i1 %due, label %slow, label %quick
quick:
  %unnamed = icmp eq ptr %given, null
  br i1 %unnamed, label %vector, label %dict
vector:
  %copy.at = getelementptr i8, ptr %fields, i64 $field.copy$
  %copy = load ptr, ptr %copy.at
  %array = call ptr $PyObject_CallNoArgs$(ptr %copy)
  br label %made
dict:
  %grads.at = getelementptr i8, ptr %fields, i64 $field.grads$
  %grads = load ptr, ptr %grads.at
  %named = call ptr $PyDict_Copy$(ptr %grads)
  br label %made
made:
  %gradient = phi ptr [%array, %vector], [%named, %dict]
  %none = icmp eq ptr %gradient, null
  br i1 %none, label %failed, label %ready
ready:
  %taken = call i1 @take_arguments(ptr %fields, ptr %args, i64 %nargs, ptr %given)
  br i1 %taken, label %running, label %unlike
unlike:
  call void $Py_DecRef$(ptr %gradient)
  br label %slow
running:
  %outputs = call ptr @run(ptr %fields)
  %n.at = getelementptr i8, ptr %fields, i64 $field.inputs$
  %n = load i64, ptr %n.at
  %held = call i1 @holds(ptr %fields, ptr %outputs, i64 1)
  br i1 %held, label %answer, label %unlike
answer:
  %checks.at = getelementptr i8, ptr %fields, i64 $field.checks$
  %checks = load i64, ptr %checks.at
  %before.slopes = add i64 %checks, 1
  %slopes = getelementptr $real$, ptr %outputs, i64 %before.slopes
  br i1 %unnamed, label %into.vector, label %into.dict
into.vector:
  %data.at = getelementptr i8, ptr %gradient, i64 $at.data$
  %data = load ptr, ptr %data.at
  %bytes = mul i64 %n, $size$
  call void @llvm.memcpy.p0.p0.i64(ptr %data, ptr %slopes, i64 %bytes, i1 false)
  br label %valued
into.dict:
  %names.at = getelementptr i8, ptr %fields, i64 $field.names$
  %names = load ptr, ptr %names.at
  %filled = call i1 @fill(ptr %gradient, ptr %names, ptr %slopes, i64 %n)
  br i1 %filled, label %valued, label %bad
valued:
  %y = call ptr @number(ptr %outputs)
  %lost = icmp eq ptr %y, null
  br i1 %lost, label %bad, label %both
both:
  %pair = call ptr (i64, ...) $PyTuple_Pack$(i64 2, ptr %y, ptr %gradient)
  call void $Py_DecRef$(ptr %y)
  call void $Py_DecRef$(ptr %gradient)
  ret ptr %pair
bad:
  call void $Py_DecRef$(ptr %gradient)
  br label %failed
slow:
  %told = call ptr @ask_slow(ptr %frame, ptr %args, i64 %nargs, ptr %given)
  ret ptr %told
failed:
  ret ptr null
}

; Run the code at one point; outputs and gradient are copied to `found`.
define void @at_point(ptr %fields, ptr %x, ptr %found) {
  %w.at = getelementptr i8, ptr %fields, i64 $field.buffer$
  %n.at = getelementptr i8, ptr %fields, i64 $field.inputs$
  %m.at = getelementptr i8, ptr %fields, i64 $field.outputs$
  %w = load ptr, ptr %w.at
  %n = load i64, ptr %n.at
  %checks.at = getelementptr i8, ptr %fields, i64 $field.checks$
  %results = load i64, ptr %m.at
  %checks = load i64, ptr %checks.at
  %m = add i64 %results, %checks
  %given = mul i64 %n, $size$
  call void @llvm.memcpy.p0.p0.i64(ptr %w, ptr %x, i64 %given, i1 false)
  %outputs = call ptr @run(ptr %fields)
  %count = add i64 %n, %m
  %bytes = mul i64 %count, $size$
  call void @llvm.memcpy.p0.p0.i64(ptr %found, ptr %outputs, i64 %bytes, i1 false)
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
