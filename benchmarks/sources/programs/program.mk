# Compiles SOURCES (patterns, relative to the build folder ../build) to objects in o/, and links PROGRAM.
FILES := $(filter-out $(EXCLUDE),$(wildcard $(SOURCES)))
OBJECTS := $(FILES:../%=o/%.o)

$(PROGRAM): $(OBJECTS)
	$(CXX) $(LINK) -o $@ $^ $(LIBS)

o/%.c.o: ../%.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -c $< -o $@

o/%.cpp.o: ../%.cpp
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -c $< -o $@
